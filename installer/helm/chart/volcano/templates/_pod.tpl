{{/*
The Deployment of a component:
(dict "root" $ "component" "scheduler" "args" (list ...) "env" (list ...) "ports" (list ...) "mounts" (list ...) "volumes" (list ...))
Programs serve /healthz and /readyz on port 11251; another one has `probe`: (dict "port" "http" "scheme" "HTTP" "ready" "/healthz").
`replicas`, `resources` and `sidecars` replace the component's values in `custom`.
*/}}
{{- define "volcano.deployment" -}}
{{- $root := .root }}
{{- $custom := .root.Values.custom }}
{{- $names := get (include "volcano.components" . | fromYaml) .component }}
{{- $app := dict "app" $names.app }}
{{- $ports := .ports }}
{{- if not .probe }}
{{- $ports = append $ports (dict "name" "healthz" "containerPort" 11251) }}
{{- end }}
{{- $probe := .probe | default (dict "port" "healthz" "ready" "/readyz") }}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $root.Release.Name }}-{{ $names.suffix }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "volcano.labels" (dict "root" $root "more" (merge (dict) $app (get $custom (printf "%s_labels" .component) | default dict))) | nindent 4 }}
spec:
  replicas: {{ .replicas | default (get $custom (printf "%s_replicas" .component)) }}
  selector:
    matchLabels:
      app: {{ $names.app }}
  template:
    metadata:
      labels:
        {{- include "volcano.labels" (dict "root" $root "more" (merge (dict) $app (get $custom (printf "%s_podLabels" .component) | default dict))) | nindent 8 }}
    spec:
      serviceAccountName: {{ $root.Release.Name }}-{{ $names.suffix }}
      {{- with $custom.priority_class_name }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $root.Values.basic.image_pull_secret }}
      imagePullSecrets:
        - name: {{ . }}
      {{- end }}
      {{- with include "volcano.chosen" (dict "root" $root "component" .component "what" "ns") }}
      nodeSelector:
        {{- . | nindent 8 }}
      {{- end }}
      {{- with include "volcano.chosen" (dict "root" $root "component" .component "what" "tolerations") }}
      tolerations:
        {{- . | nindent 8 }}
      {{- end }}
      affinity:
      {{- with include "volcano.chosen" (dict "root" $root "component" .component "what" "affinity") }}
        {{- . | nindent 8 }}
      {{- else }}
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels:
                    app: {{ $names.app }}
      {{- end }}
      {{- $security := include "volcano.chosen" (dict "root" $root "component" .component "what" "sc") | fromYaml }}
      {{- with .fsGroup }}
      {{- $security = merge (dict) $security (dict "fsGroup" .) }}
      {{- end }}
      {{- with $security }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ $root.Release.Name }}-{{ $names.suffix }}
          image: {{ include "volcano.image" (dict "root" $root "component" .component) }}
          imagePullPolicy: {{ $root.Values.basic.image_pull_policy }}
          command:
            - {{ $names.program }}
          args:
            {{- toYaml .args | nindent 12 }}
          {{- with .env }}
          env:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            {{- toYaml $ports | nindent 12 }}
          livenessProbe:
            httpGet:
              path: /healthz
              port: {{ $probe.port }}
              {{- with $probe.scheme }}
              scheme: {{ . }}
              {{- end }}
            initialDelaySeconds: 10
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet:
              path: {{ $probe.ready }}
              port: {{ $probe.port }}
              {{- with $probe.scheme }}
              scheme: {{ . }}
              {{- end }}
            periodSeconds: 5
            timeoutSeconds: 5
          {{- with .resources | default (get $custom (printf "%s_resources" .component)) }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with include "volcano.chosen" (dict "root" $root "component" .component "what" "csc" "own" "main_csc") }}
          securityContext:
            {{- . | nindent 12 }}
          {{- end }}
          volumeMounts:
            {{- toYaml (append .mounts (dict "name" "scratch" "mountPath" "/tmp")) | nindent 12 }}
        {{- with .sidecars }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
        {{- toYaml (append .volumes (dict "name" "scratch" "emptyDir" (dict))) | nindent 8 }}
{{- end }}

{{/* Flags of leader election: (dict "root" $) */}}
{{- define "volcano.election" -}}
- --leader-elect={{ .root.Values.custom.leader_elect_enable }}
- --leader-elect-resource-namespace={{ .root.Release.Namespace }}
{{- end }}

{{/* Flags of every program: (dict "root" $ "component" "scheduler") */}}
{{- define "volcano.flags" -}}
{{- $custom := .root.Values.custom -}}
- --enable-healthz=true
- --healthz-address=:11251
- --kube-api-qps={{ get $custom (printf "%s_kube_api_qps" .component) | int64 }}
- --kube-api-burst={{ get $custom (printf "%s_kube_api_burst" .component) | int64 }}
{{- with $custom.scheduler_name }}
- --scheduler-name={{ . }}
{{- end }}
{{- with get $custom (printf "%s_feature_gates" .component) }}
- --feature-gates={{ . }}
{{- end }}
- -v={{ get $custom (printf "%s_log_level" .component) }}
{{- end }}
