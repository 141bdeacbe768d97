{{/* Names of the components: suffix of object names, `app` label, program. */}}
{{- define "volcano.components" -}}
scheduler: {suffix: scheduler, app: volcano-scheduler, program: vc-scheduler}
controller: {suffix: controllers, app: volcano-controller, program: vc-controller-manager}
admission: {suffix: admission, app: volcano-admission, program: vc-webhook-manager}
hypernode_controller: {suffix: hypernode-controllers, app: volcano-hypernode-controller, program: vc-hypernode-controller-manager}
dashboard: {suffix: dashboard, app: volcano-dashboard, program: volcano}
{{- end }}

{{/* "true" when a component is enabled: (dict "root" $ "component" "scheduler") */}}
{{- define "volcano.enabled" -}}
{{- if eq .component "dashboard" }}
{{- if .root.Values.dashboard.enabled }}true{{ end }}
{{- else if eq .component "hypernode_controller" }}
{{- if eq .root.Values.custom.hypernode_controller_mode "standalone" }}true{{ end }}
{{- else if and (get .root.Values.custom (printf "%s_enable" .component)) (get .root.Values.basic .component).enabled }}true{{ end }}
{{- end }}

{{/* A component's own setting, or the default: (dict "root" $ "component" "scheduler" "what" "tolerations") */}}
{{- define "volcano.chosen" -}}
{{- $custom := .root.Values.custom }}
{{- with get $custom (printf "%s_%s" .component (default .what .own)) | default (get $custom (printf "default_%s" .what)) }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/* Labels, as lines: (dict "root" $ "more" (dict ...)) */}}
{{- define "volcano.labels" -}}
{{- $labels := merge (dict) (.more | default dict) (.root.Values.custom.common_labels | default dict) }}
{{- $labels = merge $labels (dict "app.kubernetes.io/name" "volcano" "app.kubernetes.io/instance" .root.Release.Name) }}
{{- toYaml $labels }}
{{- end }}

{{/* An image: (dict "root" $ "component" "scheduler") */}}
{{- define "volcano.image" -}}
{{- $basic := .root.Values.basic }}
{{- $name := get $basic (printf "%s_image_name" .component) }}
{{- $tag := get $basic (printf "%s_image_tag_version" .component) | default $basic.image_tag_version }}
{{- with $basic.image_registry }}{{ . | trimSuffix "/" }}/{{ end }}{{ $name }}:{{ $tag | default .root.Chart.AppVersion }}
{{- end }}

{{/* Content of a ConfigMap: the override, or a file of the chart: (dict "root" $ "component" "scheduler") */}}
{{- define "volcano.config" -}}
{{- $path := get .root.Values.basic (printf "%s_config_file" .component) }}
{{- $text := get .root.Values.custom (printf "%s_config_override" .component) }}
{{- if not $text }}
{{- $text = .root.Files.Get $path }}
{{- if not $text }}
{{- fail (printf "basic.%s_config_file: the chart has no file %q; it has config/volcano-scheduler.conf, config/volcano-scheduler-preempt.conf and config/volcano-admission.conf, and custom.%s_config_override takes any text" .component $path .component) }}
{{- end }}
{{- end }}
{{- $text | trimSuffix "\n" }}
{{- end }}

{{/* IP families of Services. */}}
{{- define "volcano.families" -}}
{{- with .Values.service.ipFamilyPolicy }}
ipFamilyPolicy: {{ . }}
{{- end }}
{{- with .Values.service.ipFamilies }}
ipFamilies: {{ toJson . }}
{{- end }}
{{- end }}
