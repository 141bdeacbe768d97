// Command typeinfo prints, as JSON, the wire format of Kubernetes API types: JSON names, protobuf numbers and merge keys.
//
// It reads lines "group version Kind" and walks every struct reachable from those kinds by reflection.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	certificates "k8s.io/api/certificates/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	networking "k8s.io/api/networking/v1"
	node "k8s.io/api/node/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	resource "k8s.io/api/resource/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	metrics "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type field struct {
	JSON       string `json:"json"`
	Number     int    `json:"number"`
	Type       string `json:"type"`
	Container  string `json:"container"`
	Go         string `json:"go"`
	Pointer    bool   `json:"pointer"`
	OmitEmpty  bool   `json:"omitEmpty"`
	OmitZero   bool   `json:"omitZero"`
	Inline     bool   `json:"inline"`
	MergeKey   string `json:"mergeKey"`
	Strategies string `json:"strategies"`
}

// Types whose JSON is not that of their fields.
var special = map[string]string{
	"k8s.io/apimachinery/pkg/api/resource.Quantity":      "Quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":    "IntOrString",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":          "Time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":     "MicroTime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":      "Duration",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":      "FieldsV1",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":       "RawExtension",
	"k8s.io/api/authentication/v1.ExtraValue":            "ExtraValue",
	"k8s.io/api/authorization/v1.ExtraValue":             "ExtraValue",
	"k8s.io/api/certificates/v1.ExtraValue":              "ExtraValue",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                         "JSON",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "SchemaOrList",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "SchemaOrBool",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "SchemaOrStrings",
}

var types = map[string][]field{}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		admissionregistration.AddToScheme, apps.AddToScheme, authentication.AddToScheme, authorization.AddToScheme,
		autoscaling.AddToScheme, batch.AddToScheme, certificates.AddToScheme, node.AddToScheme, coordination.AddToScheme, core.AddToScheme, discovery.AddToScheme,
		events.AddToScheme, networking.AddToScheme, policy.AddToScheme, rbac.AddToScheme, resource.AddToScheme, scheduling.AddToScheme,
		storage.AddToScheme, apiextensions.AddToScheme, autoscalingv2.AddToScheme, apiregistration.AddToScheme,
		metrics.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	kinds := map[string]string{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		object, err := scheme.New(schema.GroupVersionKind{Group: words[0], Version: words[1], Kind: words[2]})
		if err != nil {
			panic(err)
		}
		kinds[lines.Text()] = walk(reflect.TypeOf(object).Elem())
	}
	walk(reflect.TypeOf(apiextensions.JSONSchemaProps{}))
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"kinds": kinds, "types": types}); err != nil {
		panic(err)
	}
}

// name is the short, unique name of a type: core.v1.PodSpec.
func name(t reflect.Type) string {
	parts := strings.Split(t.PkgPath(), "/")
	return strings.Join(parts[len(parts)-2:], ".") + "." + t.Name()
}

func walk(t reflect.Type) string {
	if known, ok := special[t.PkgPath()+"."+t.Name()]; ok {
		return known
	}
	label := name(t)
	if _, seen := types[label]; seen {
		return label
	}
	types[label] = nil
	var fields []field
	for i := 0; i < t.NumField(); i++ {
		if f, ok := describe(t.Field(i)); ok {
			fields = append(fields, f)
		}
	}
	types[label] = fields
	return label
}

func describe(f reflect.StructField) (field, bool) {
	tag := strings.Split(f.Tag.Get("json"), ",")
	if tag[0] == "-" {
		return field{}, false
	}
	result := field{
		JSON: tag[0], MergeKey: f.Tag.Get("patchMergeKey"), Strategies: f.Tag.Get("patchStrategy"),
	}
	for _, option := range tag[1:] {
		result.OmitEmpty = result.OmitEmpty || option == "omitempty"
		result.OmitZero = result.OmitZero || option == "omitzero"
	}
	result.Inline = tag[0] == "" && f.Anonymous
	if wire := strings.Split(f.Tag.Get("protobuf"), ","); len(wire) > 1 {
		number, err := strconv.Atoi(wire[1])
		if err != nil {
			panic(err)
		}
		result.Number = number
	}
	t := f.Type
	if t.Kind() == reflect.Pointer {
		result.Pointer = true
		t = t.Elem()
	}
	result.Go = t.String()
	result.Type, result.Container = classify(t)
	return result, true
}

func classify(t reflect.Type) (string, string) {
	if known, ok := special[t.PkgPath()+"."+t.Name()]; ok {
		return known, ""
	}
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes", ""
		}
		return element(t.Elem()), "list"
	case reflect.Map:
		return element(t.Elem()), "map"
	}
	return element(t), ""
}

func element(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if known, ok := special[t.PkgPath()+"."+t.Name()]; ok {
		return known
	}
	switch t.Kind() {
	case reflect.Struct:
		return walk(t)
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32:
		return "int32"
	case reflect.Int64:
		return "int64"
	case reflect.Float64:
		return "double"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		if t.Elem().Kind() == reflect.String {
			return "strings"
		}
	}
	panic(fmt.Sprintf("unsupported type %s", t))
}
