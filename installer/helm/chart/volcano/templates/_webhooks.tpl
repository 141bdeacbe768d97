{{/* Path -> name of the webhook, resource and operations. */}}
{{- define "volcano.webhooks" -}}
/jobs/mutate: {name: mutatejob.volcano.sh, group: batch.volcano.sh, version: v1alpha1, resource: jobs, operations: [CREATE, UPDATE]}
/jobs/validate: {name: validatejob.volcano.sh, group: batch.volcano.sh, version: v1alpha1, resource: jobs, operations: [CREATE, UPDATE]}
/pods/mutate: {name: mutatepod.volcano.sh, group: "", version: v1, resource: pods, operations: [CREATE]}
/pods/validate: {name: validatepod.volcano.sh, group: "", version: v1, resource: pods, operations: [CREATE]}
/podgroups/mutate: {name: mutatepodgroup.volcano.sh, group: scheduling.volcano.sh, version: v1beta1, resource: podgroups, operations: [CREATE]}
/podgroups/validate: {name: validatepodgroup.volcano.sh, group: scheduling.volcano.sh, version: v1beta1, resource: podgroups, operations: [CREATE]}
/queues/mutate: {name: mutatequeue.volcano.sh, group: scheduling.volcano.sh, version: v1beta1, resource: queues, operations: [CREATE], scope: Cluster}
/queues/validate: {name: validatequeue.volcano.sh, group: scheduling.volcano.sh, version: v1beta1, resource: queues, operations: [CREATE, UPDATE, DELETE], scope: Cluster}
/jobflows/mutate: {name: mutatejobflow.volcano.sh, group: flow.volcano.sh, version: v1alpha1, resource: jobflows, operations: [CREATE, UPDATE]}
/jobflows/validate: {name: validatejobflow.volcano.sh, group: flow.volcano.sh, version: v1alpha1, resource: jobflows, operations: [CREATE, UPDATE]}
/hypernodes/validate: {name: validatehypernode.volcano.sh, group: topology.volcano.sh, version: v1alpha1, resource: hypernodes, operations: [CREATE, UPDATE], scope: Cluster}
/nodereservations/validate: {name: validatenodereservation.volcano.sh, group: reservation.volcano.sh, version: v1alpha1, resource: nodereservations, operations: [CREATE, UPDATE], scope: Cluster}
/cronjobs/mutate: {name: mutatecronjob.volcano.sh, group: batch.volcano.sh, version: v1alpha1, resource: cronjobs, operations: [CREATE, UPDATE]}
/cronjobs/validate: {name: validatecronjob.volcano.sh, group: batch.volcano.sh, version: v1alpha1, resource: cronjobs, operations: [CREATE, UPDATE]}
{{- end }}

{{/* The enabled paths, as a list. */}}
{{- define "volcano.webhook.paths" -}}
{{- $known := include "volcano.webhooks" . | fromYaml }}
{{- $paths := list }}
{{- range $entry := splitList "," .Values.custom.enabled_admissions }}
{{- $path := trim $entry }}
{{- if $path }}
{{- if not (hasKey $known $path) }}
{{- fail (printf "custom.enabled_admissions: unknown service %q; choose from %s" $path (keys $known | sortAlpha | join ", ")) }}
{{- end }}
{{- $paths = append $paths $path }}
{{- end }}
{{- end }}
{{- toYaml ($paths | uniq) }}
{{- end }}

{{/* The enabled configurations by kind: plural -> names. */}}
{{- define "volcano.webhook.names" -}}
{{- $names := dict }}
{{- range $path := include "volcano.webhook.paths" . | fromYamlArray }}
{{- $kind := printf "%swebhookconfigurations" (ternary "mutating" "validating" (hasSuffix "/mutate" $path)) }}
{{- $_ := set $names $kind (append (get $names $kind | default list) (printf "volcano-admission-service%s" (replace "/" "-" $path))) }}
{{- end }}
{{- toYaml $names }}
{{- end }}

{{/* Match conditions that skip requests which the webhook would not change: (dict "root" $ "path" "/jobs/mutate") */}}
{{- define "volcano.webhook.conditions" -}}
{{- if eq .path "/jobs/mutate" -}}
- name: something-is-open
  expression: >-
    request.operation != "CREATE" || !(has(object.metadata) && type(object.metadata) == map && has(object.metadata.annotations) && type(object.metadata.annotations) == map && "volcano.sh/user" in object.metadata.annotations && has(object.spec) && type(object.spec) == map && has(object.spec.queue) && type(object.spec.queue) == string && object.spec.queue != "" && has(object.spec.schedulerName) && type(object.spec.schedulerName) == string && object.spec.schedulerName != "" && has(object.spec.maxRetry) && type(object.spec.maxRetry) == int && object.spec.maxRetry != 0 && has(object.spec.minAvailable) && type(object.spec.minAvailable) == int && object.spec.minAvailable != 0 && (!has(object.spec.plugins) || type(object.spec.plugins) == map && ["mpi", "pytorch", "ray", "tensorflow"].all(p, !(p in object.spec.plugins))) && has(object.spec.tasks) && type(object.spec.tasks) == list && object.spec.tasks.all(t, type(t) == map && has(t.name) && type(t.name) == string && t.name != "" && has(t.maxRetry) && type(t.maxRetry) == int && t.maxRetry != 0 && has(t.minAvailable) && type(t.minAvailable) == int && has(t.template) && type(t.template) == map && has(t.template.spec) && type(t.template.spec) == map && !has(t.template.spec.hostNetwork) && !has(t.template.spec.initContainers) && has(t.template.spec.containers) && type(t.template.spec.containers) == list && t.template.spec.containers.all(c, type(c) == map && (!has(c.resources) || type(c.resources) == map && (!has(c.resources.requests) || type(c.resources.requests) == map && c.resources.requests.all(r, !r.contains("/")))))))
{{- else if eq .path "/podgroups/validate" -}}
{{- $user := printf "system:serviceaccount:%s:%s-controllers" .root.Release.Namespace .root.Release.Name }}
- name: not-our-controllers
  expression: >-
    !(request.userInfo.username in [{{ $user | quote }}] && has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, o.kind == "Job" && o.apiVersion == "batch.volcano.sh/v1alpha1"))
{{- end }}
{{- end }}
