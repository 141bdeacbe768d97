{{/* Every path: the entry's name, and what it is asked about. */}}
{{- define "volcano.webhooks" -}}
/jobs/mutate: {name: mutatejob.volcano.sh, group: batch.volcano.sh, version: v1alpha1, resource: jobs, operations: [CREATE, UPDATE]}
/jobs/validate: {name: validatejob.volcano.sh, group: batch.volcano.sh, version: v1alpha1, resource: jobs, operations: [CREATE, UPDATE]}
/pods/mutate: {name: mutatepod.volcano.sh, group: "", version: v1, resource: pods, operations: [CREATE]}
/pods/validate: {name: validatepod.volcano.sh, group: "", version: v1, resource: pods, operations: [CREATE]}
/podgroups/mutate: {name: mutatepodgroup.volcano.sh, group: scheduling.volcano.sh, version: v1beta1, resource: podgroups, operations: [CREATE]}
/podgroups/validate: {name: validatepodgroup.volcano.sh, group: scheduling.volcano.sh, version: v1beta1, resource: podgroups, operations: [CREATE]}
/queues/mutate: {name: mutatequeue.volcano.sh, group: scheduling.volcano.sh, version: v1beta1, resource: queues, operations: [CREATE], scope: Cluster}
/queues/validate: {name: validatequeue.volcano.sh, group: scheduling.volcano.sh, version: v1beta1, resource: queues, operations: [CREATE, UPDATE, DELETE], scope: Cluster}
/jobflows/validate: {name: validatejobflow.volcano.sh, group: flow.volcano.sh, version: v1alpha1, resource: jobflows, operations: [CREATE, UPDATE]}
/hypernodes/validate: {name: validatehypernode.volcano.sh, group: topology.volcano.sh, version: v1alpha1, resource: hypernodes, operations: [CREATE, UPDATE], scope: Cluster}
/cronjobs/validate: {name: validatecronjob.volcano.sh, group: batch.volcano.sh, version: v1alpha1, resource: cronjobs, operations: [CREATE, UPDATE]}
{{- end }}

{{/* The paths that are on, as a list. */}}
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

{{/* The configurations that are on, by kind: plural -> names. */}}
{{- define "volcano.webhook.names" -}}
{{- $names := dict }}
{{- range $path := include "volcano.webhook.paths" . | fromYamlArray }}
{{- $kind := printf "%swebhookconfigurations" (ternary "mutating" "validating" (hasSuffix "/mutate" $path)) }}
{{- $_ := set $names $kind (append (get $names $kind | default list) (printf "volcano-admission-service%s" (replace "/" "-" $path))) }}
{{- end }}
{{- toYaml $names }}
{{- end }}
