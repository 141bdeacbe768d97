// Drives an API server the way Go operators do: informers, typed clients in protobuf, leader election, events and
// the dynamic client. Prints one line per check, `ok NAME` or `FAIL NAME: reason`, and exits with 1 when a check failed.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"k8s.io/client-go/util/retry"
)

const timeout = 15 * time.Second

type world struct {
	context   context.Context
	config    *rest.Config
	client    *kubernetes.Clientset
	dynamic   *dynamic.DynamicClient
	namespace string
}

type check struct {
	name string
	run  func(*world) error
}

var checks = []check{
	{"an informer receives existing objects and every change", informer},
	{"a typed client creates, reads, updates and deletes", typed},
	{"an outdated update conflicts and is retried", conflict},
	{"patches of every type are accepted", patches},
	{"server-side apply separates field managers", apply},
	{"status is a separate subresource", status},
	{"a pod is bound and evicted", binding},
	{"leader election elects the next leader", election},
	{"events are recorded and counted", events},
	{"the dynamic client finds our kinds", dynamicClient},
	{"an informer on our kinds receives changes", dynamicInformer},
	{"errors are those a Go program tests for", errorResponses},
}

func main() {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		fmt.Println("FAIL kubeconfig:", err)
		os.Exit(1)
	}
	config.QPS, config.Burst = 200, 400
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	w := &world{ctx, config, kubernetes.NewForConfigOrDie(config), dynamic.NewForConfigOrDie(config), ""}
	failed := 0
	for number, c := range checks {
		w.namespace = fmt.Sprintf("clientgo-%d", number)
		if err := inNamespace(w, c.run); err != nil {
			fmt.Printf("FAIL %s: %v\n", c.name, err)
			failed++
		} else {
			fmt.Printf("ok %s\n", c.name)
		}
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func inNamespace(w *world, run func(*world) error) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	if _, err := w.client.CoreV1().Namespaces().Create(w.context, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating the namespace: %w", err)
	}
	ready := eventually(func() (bool, error) { // needed by pods, on a real server as well
		_, err := w.client.CoreV1().ServiceAccounts(w.namespace).Get(w.context, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	if ready != nil {
		return fmt.Errorf("waiting for the service account: %w", ready)
	}
	return run(w)
}

func eventually(condition func() (bool, error)) error {
	deadline := time.Now().Add(timeout)
	for {
		ok, err := condition()
		if err != nil || ok {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not true within %s", timeout)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func want[T comparable](what string, got, wanted T) error {
	if got != wanted {
		return fmt.Errorf("%s is %v, not %v", what, got, wanted)
	}
	return nil
}

func first(problems ...error) error {
	for _, err := range problems {
		if err != nil {
			return err
		}
	}
	return nil
}

func pod(name string) *corev1.Pod {
	request := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			SchedulerName: "no-scheduler",
			Containers: []corev1.Container{{
				Name: "main", Image: "busybox:1", Command: []string{"sleep", "1000"},
				Resources: corev1.ResourceRequirements{Requests: request},
			}},
		},
	}
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"v": value}}
}

func informer(w *world) error {
	maps := w.client.CoreV1().ConfigMaps(w.namespace)
	if _, err := maps.Create(w.context, configMap("before", "1"), metav1.CreateOptions{}); err != nil {
		return err
	}
	var lock sync.Mutex
	seen := map[string]int{}
	note := func(what string, object any) {
		lock.Lock()
		defer lock.Unlock()
		if m, ok := object.(*corev1.ConfigMap); ok && m.Name != "kube-root-ca.crt" {
			seen[what+" "+m.Name+" "+m.Data["v"]]++
		}
	}
	factory := informers.NewSharedInformerFactoryWithOptions(w.client, 0, informers.WithNamespace(w.namespace))
	shared := factory.Core().V1().ConfigMaps().Informer()
	shared.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { note("add", object) },
		UpdateFunc: func(_, object any) { note("update", object) },
		DeleteFunc: func(object any) { note("delete", object) },
	})
	ctx, cancel := context.WithCancel(w.context)
	defer cancel()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), shared.HasSynced) {
		return fmt.Errorf("the informer did not sync")
	}
	made, err := maps.Create(w.context, configMap("after", "1"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Data["v"] = "2"
	_, changed := maps.Update(w.context, made, metav1.UpdateOptions{})
	gone := maps.Delete(w.context, "before", metav1.DeleteOptions{})
	if err := first(changed, gone); err != nil {
		return err
	}
	wanted := []string{"add before 1", "add after 1", "update after 2", "delete before 1"}
	err = eventually(func() (bool, error) {
		lock.Lock()
		defer lock.Unlock()
		for _, line := range wanted {
			if seen[line] != 1 {
				return false, nil
			}
		}
		return len(seen) == len(wanted), nil
	})
	if err != nil {
		return fmt.Errorf("%w; seen: %v", err, seen)
	}
	return nil
}

func typed(w *world) error {
	pods := w.client.CoreV1().Pods(w.namespace)
	made, err := pods.Create(w.context, pod("web"), metav1.CreateOptions{FieldManager: "clientgo"})
	if err != nil {
		return err
	}
	read, err := pods.Get(w.context, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	cpu := read.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]
	listed, err := pods.List(w.context, metav1.ListOptions{LabelSelector: "app=web", FieldSelector: "spec.nodeName="})
	if err != nil {
		return err
	}
	zero := int64(0)
	err = pods.Delete(w.context, "web", metav1.DeleteOptions{
		GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &made.UID},
	})
	_, gone := pods.Get(w.context, "web", metav1.GetOptions{})
	return first(
		want("uid", read.UID, made.UID),
		want("phase", read.Status.Phase, corev1.PodPending),
		want("cpu", cpu.String(), "100m"),
		want("restart policy", read.Spec.RestartPolicy, corev1.RestartPolicyAlways),
		want("listed", len(listed.Items), 1),
		err,
		want("not found", errors.IsNotFound(gone), true),
	)
}

func conflict(w *world) error {
	maps := w.client.CoreV1().ConfigMaps(w.namespace)
	stale, err := maps.Create(w.context, configMap("settings", "1"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	fresh := stale.DeepCopy()
	fresh.Data["v"] = "2"
	_, err = maps.Update(w.context, fresh, metav1.UpdateOptions{})
	stale.Data["v"] = "3"
	_, conflicting := maps.Update(w.context, stale, metav1.UpdateOptions{})
	retried := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		found, err := maps.Get(w.context, "settings", metav1.GetOptions{})
		if err != nil {
			return err
		}
		found.Data["v"] = "4"
		_, err = maps.Update(w.context, found, metav1.UpdateOptions{})
		return err
	})
	return first(err, want("conflict", errors.IsConflict(conflicting), true), retried)
}

func patches(w *world) error {
	pods := w.client.CoreV1().Pods(w.namespace)
	if _, err := pods.Create(w.context, pod("web"), metav1.CreateOptions{}); err != nil {
		return err
	}
	bodies := map[types.PatchType]string{
		types.StrategicMergePatchType: `{"spec":{"containers":[{"name":"main","image":"busybox:2"}]}}`,
		types.MergePatchType:          `{"metadata":{"labels":{"merged":"yes","app":null}}}`,
		types.JSONPatchType:           `[{"op":"add","path":"/metadata/labels/json","value":"yes"}]`,
	}
	for _, kind := range []types.PatchType{types.StrategicMergePatchType, types.MergePatchType, types.JSONPatchType} {
		if _, err := pods.Patch(w.context, "web", kind, []byte(bodies[kind]), metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	read, err := pods.Get(w.context, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return first(
		want("labels", fmt.Sprint(read.Labels), "map[json:yes merged:yes]"),
		want("image", read.Spec.Containers[0].Image, "busybox:2"),
		want("command kept", fmt.Sprint(read.Spec.Containers[0].Command), "[sleep 1000]"),
	)
}

func apply(w *world) error {
	maps := w.client.CoreV1().ConfigMaps(w.namespace)
	wanted := func(key, value string) *corev1apply.ConfigMapApplyConfiguration {
		return corev1apply.ConfigMap("settings", w.namespace).WithData(map[string]string{key: value})
	}
	_, one := maps.Apply(w.context, wanted("a", "1"), metav1.ApplyOptions{FieldManager: "one"})
	_, two := maps.Apply(w.context, wanted("b", "1"), metav1.ApplyOptions{FieldManager: "two"})
	_, conflicting := maps.Apply(w.context, wanted("a", "2"), metav1.ApplyOptions{FieldManager: "two"})
	forced, err := maps.Apply(w.context, wanted("a", "2"), metav1.ApplyOptions{FieldManager: "two", Force: true})
	if err := first(one, two, err, want("conflict", errors.IsConflict(conflicting), true)); err != nil {
		return err
	}
	return want("data", fmt.Sprint(forced.Data), "map[a:2]")
}

func status(w *world) error {
	pods := w.client.CoreV1().Pods(w.namespace)
	made, err := pods.Create(w.context, pod("web"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status.Conditions = append(made.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", LastTransitionTime: metav1.Now(),
	})
	made.Spec.SchedulerName = "ignored"
	changed, err := pods.UpdateStatus(w.context, made, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	return first(
		want("reason", changed.Status.Conditions[0].Reason, "Unschedulable"),
		want("scheduler name", changed.Spec.SchedulerName, "no-scheduler"),
	)
}

func binding(w *world) error {
	pods := w.client.CoreV1().Pods(w.namespace)
	nodes, err := w.client.CoreV1().Nodes().List(w.context, metav1.ListOptions{LabelSelector: "!node-role.kubernetes.io/control-plane"})
	if err != nil {
		return err
	}
	if len(nodes.Items) == 0 {
		return fmt.Errorf("there are no nodes")
	}
	node := nodes.Items[0].Name
	if _, err := pods.Create(w.context, pod("web"), metav1.CreateOptions{}); err != nil {
		return err
	}
	bind := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := pods.Bind(w.context, bind, metav1.CreateOptions{}); err != nil {
		return err
	}
	again := pods.Bind(w.context, bind, metav1.CreateOptions{})
	running := eventually(func() (bool, error) {
		read, err := pods.Get(w.context, "web", metav1.GetOptions{})
		return err == nil && read.Status.Phase == corev1.PodRunning && read.Spec.NodeName == node, err
	})
	evicted := pods.EvictV1(w.context, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: w.namespace}})
	gone := eventually(func() (bool, error) {
		read, err := pods.Get(w.context, "web", metav1.GetOptions{})
		return errors.IsNotFound(err) || (err == nil && read.DeletionTimestamp != nil), nil
	})
	return first(want("second binding conflicts", errors.IsConflict(again), true), running, evicted, gone)
}

func election(w *world) error {
	leading := make(chan string, 4)
	run := func(ctx context.Context, identity string) {
		lock := &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: w.namespace, Name: "leader"},
			Client:     w.client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		}
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true,
			LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 500 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leading <- identity }, OnStoppedLeading: func() {},
			},
		})
	}
	next := func() string {
		select {
		case identity := <-leading:
			return identity
		case <-time.After(timeout):
			return "none"
		}
	}
	one, stop := context.WithCancel(w.context)
	go run(one, "one")
	before := want("first leader", next(), "one")
	two, end := context.WithCancel(w.context)
	defer end()
	go run(two, "two")
	time.Sleep(time.Second)
	stop()
	after := want("second leader", next(), "two")
	lease, err := w.client.CoordinationV1().Leases(w.namespace).Get(w.context, "leader", metav1.GetOptions{})
	if err := first(before, after, err); err != nil {
		return err
	}
	return first(
		want("holder", *lease.Spec.HolderIdentity, "two"),
		want("transitions", *lease.Spec.LeaseTransitions, int32(1)),
		want("renewed in microseconds", renewedWithMicros(lease), true),
	)
}

func renewedWithMicros(lease *coordinationv1.Lease) bool {
	return lease.Spec.RenewTime != nil && !lease.Spec.RenewTime.Before(lease.Spec.AcquireTime)
}

func events(w *world) error {
	made, err := w.client.CoreV1().Pods(w.namespace).Create(w.context, pod("web"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: w.client.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "clientgo"})
	about, err := reference.GetReference(scheme.Scheme, made)
	if err != nil {
		return err
	}
	for range 3 {
		recorder.Event(about, corev1.EventTypeWarning, "FailedScheduling", "no node fits")
	}
	return eventually(func() (bool, error) {
		found, err := w.client.CoreV1().Events(w.namespace).List(w.context, metav1.ListOptions{
			FieldSelector: "involvedObject.name=web,reason=FailedScheduling",
		})
		return err == nil && len(found.Items) == 1 && found.Items[0].Count == 3, err
	})
}

var queues = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "queues"}
var podGroups = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"}

func queue(name string, weight int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"weight": weight},
	}}
}

func dynamicClient(w *world) error {
	client := w.dynamic.Resource(queues)
	made, err := client.Create(w.context, queue("clientgo", 2), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	defer client.Delete(w.context, "clientgo", metav1.DeleteOptions{})
	patch := []byte(`{"spec":{"weight":5}}`)
	patched, err := client.Patch(w.context, "clientgo", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	weight, _, _ := unstructured.NestedInt64(patched.Object, "spec", "weight")
	var updated *unstructured.Unstructured
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error { // the queue controller writes it, too
		fresh, err := client.Get(w.context, "clientgo", metav1.GetOptions{})
		if err != nil {
			return err
		}
		unstructured.SetNestedField(fresh.Object, int64(7), "status", "pending")
		updated, err = client.UpdateStatus(w.context, fresh, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	listed, err := client.List(w.context, metav1.ListOptions{})
	if err != nil {
		return err
	}
	_, wrong := client.Create(w.context, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
		"metadata": map[string]any{"name": "wrong"}, "spec": map[string]any{"weight": "heavy"},
	}}, metav1.CreateOptions{})
	_, strategic := client.Patch(w.context, "clientgo", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return first(
		want("weight", weight, int64(5)),
		want("uid kept", updated.GetUID(), made.GetUID()),
		want("more than one queue", len(listed.Items) > 1, true),
		want("invalid", errors.IsInvalid(wrong), true),
		want("unsupported media type", errors.IsUnsupportedMediaType(strategic), true),
	)
}

func dynamicInformer(w *world) error {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(w.dynamic, 0, w.namespace, nil)
	informer := factory.ForResource(podGroups).Informer()
	ctx, cancel := context.WithCancel(w.context)
	defer cancel()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("the informer did not sync")
	}
	group := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
		"metadata": map[string]any{"name": "gang"}, "spec": map[string]any{"minMember": int64(3)},
	}}
	if _, err := w.dynamic.Resource(podGroups).Namespace(w.namespace).Create(w.context, group, metav1.CreateOptions{}); err != nil {
		return err
	}
	return eventually(func() (bool, error) {
		_, there, err := informer.GetStore().GetByKey(w.namespace + "/gang")
		return there, err
	})
}

func errorResponses(w *world) error {
	maps := w.client.CoreV1().ConfigMaps(w.namespace)
	_, made := maps.Create(w.context, configMap("settings", "1"), metav1.CreateOptions{})
	_, again := maps.Create(w.context, configMap("settings", "1"), metav1.CreateOptions{})
	_, invalid := maps.Create(w.context, configMap("Not A Name", "1"), metav1.CreateOptions{})
	_, elsewhere := w.client.CoreV1().ConfigMaps("nowhere").Create(w.context, configMap("x", "1"), metav1.CreateOptions{})
	old := int64(5)
	_, expired := maps.Watch(w.context, metav1.ListOptions{ResourceVersion: "1", TimeoutSeconds: &old})
	config := rest.CopyConfig(w.config)
	config.BearerToken = "wrong"
	_, unauthorized := kubernetes.NewForConfigOrDie(config).CoreV1().Nodes().List(w.context, metav1.ListOptions{})
	return first(
		made,
		want("already exists", errors.IsAlreadyExists(again), true),
		want("invalid", errors.IsInvalid(invalid), true),
		want("no such namespace", errors.IsNotFound(elsewhere), true),
		want("an old version is watched or expired", expired == nil || errors.IsResourceExpired(expired) || errors.IsGone(expired), true),
		want("unauthorized", errors.IsUnauthorized(unauthorized), true),
	)
}
