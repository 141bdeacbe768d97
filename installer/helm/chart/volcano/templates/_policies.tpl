{{/* Rules of admission policies in CEL: the part of the webhooks' rules that needs no other object. */}}

{{/* Rules for a list of policies of a job or task: (dict "path" "object.spec.policies") gives expressions over p. */}}
{{- define "volcano.policy.of.list" -}}
{{- $events := "['*', 'PodFailed', 'PodEvicted', 'PodPending', 'Unknown', 'TaskCompleted', 'TaskFailed', 'JobUpdated']" }}
{{- $actions := "['AbortJob', 'RestartJob', 'RestartTask', 'RestartPod', 'RestartPartition', 'TerminateJob', 'CompleteJob', 'ResumeJob']" }}
- expression: >-
    variables.policies.all(p, !((has(p.event) || has(p.events)) && has(p.exitCode)))
  message: must not specify event and exitCode simultaneously
- expression: >-
    variables.policies.all(p, has(p.event) || has(p.events) || has(p.exitCode))
  message: either event and exitCode should be specified
- expression: >-
    variables.policies.all(p, (!has(p.event) || p.event in {{ $events }}) && (!has(p.events) || p.events.all(e, e in {{ $events }})))
  message: invalid policy event
- expression: >-
    variables.policies.all(p, has(p.exitCode) || !has(p.action) || p.action in {{ $actions }})
  message: invalid policy action
- expression: >-
    variables.policies.all(p, !has(p.exitCode) || p.exitCode != 0)
  message: 0 is not a valid error code
{{- end }}

{{- define "volcano.policy.tiers" -}}
(has({{ . }}.networkTopology) && has({{ . }}.networkTopology.highestTierAllowed) && has({{ . }}.networkTopology.highestTierName))
{{- end }}

{{- define "volcano.policy.job" -}}
variables:
  - name: tasks
    expression: "has(object.spec.tasks) ? object.spec.tasks : []"
  - name: policies
    expression: >-
      (has(object.spec.policies) ? object.spec.policies : []) + variables.tasks.filter(t, has(t.policies)).map(t, t.policies).flatten()
  - name: volumes
    expression: "has(object.spec.volumes) ? object.spec.volumes : []"
validations:
  - expression: size(variables.tasks) > 0
    message: No task specified in job spec
  - expression: >-
      variables.tasks.all(t, !has(t.name) || variables.tasks.exists_one(u, has(u.name) && u.name == t.name))
    message: duplicated task name
  - expression: >-
      variables.tasks.all(t, !has(t.minAvailable) || !has(t.replicas) || t.minAvailable <= t.replicas)
    message: "'minAvailable' is greater than 'replicas' in task"
  - expression: >-
      !has(object.spec.minAvailable) || object.spec.minAvailable <= variables.tasks.map(t, has(t.replicas) ? t.replicas : 0).sum()
    message: job 'minAvailable' should not be greater than total replicas in tasks
  - expression: >-
      !has(object.spec.plugins) || object.spec.plugins.all(p, p in ['env', 'svc', 'ssh', 'tensorflow', 'pytorch', 'mpi', 'ray', 'hcclrank'])
    message: unable to find job plugin
  - expression: >-
      variables.tasks.all(t, !has(t.dependsOn) || !has(t.dependsOn.name) || t.dependsOn.name.all(n, n != (has(t.name) ? t.name : '') && variables.tasks.exists(u, has(u.name) && u.name == n)))
    message: job has dependencies that are not tasks of the job, and doesn't form a directed acyclic graph(DAG)
  - expression: >-
      variables.volumes.all(v, has(v.mountPath) && v.mountPath != '' && variables.volumes.exists_one(w, has(w.mountPath) && w.mountPath == v.mountPath))
    message: mountPath is required and must not be repeated
  - expression: >-
      variables.volumes.all(v, (has(v.volumeClaim) ? 1 : 0) + (has(v.volumeClaimName) && v.volumeClaimName != '' ? 1 : 0) >= 1)
    message: either VolumeClaim or VolumeClaimName must be specified
  - expression: >-
      !{{ include "volcano.policy.tiers" "object.spec" }} && variables.tasks.all(t, !has(t.partitionPolicy) || !{{ include "volcano.policy.tiers" "t.partitionPolicy" }})
    message: must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously
  - expression: >-
      variables.tasks.all(t, !has(t.partitionPolicy) || (has(t.partitionPolicy.totalPartitions) && has(t.partitionPolicy.partitionSize) && t.partitionPolicy.totalPartitions > 0 && t.partitionPolicy.partitionSize > 0 && t.partitionPolicy.totalPartitions * t.partitionPolicy.partitionSize == (has(t.replicas) ? t.replicas : 0)))
    message: "'Replicas' are not equal to TotalPartitions*PartitionSize"
  - expression: >-
      request.operation != 'UPDATE' || size(variables.tasks) == size(oldObject.spec.tasks)
    message: job updates may not add or remove tasks
  {{- include "volcano.policy.of.list" . | nindent 2 }}
{{- end }}

{{- define "volcano.policy.queue" -}}
variables:
  - name: present
    expression: "request.operation != 'DELETE'"
  - name: capability
    expression: "variables.present && has(object.spec.capability) ? object.spec.capability : {}"
  - name: deserved
    expression: "variables.present && has(object.spec.deserved) ? object.spec.deserved : {}"
  - name: guarantee
    expression: "variables.present && has(object.spec.guarantee) && has(object.spec.guarantee.resource) ? object.spec.guarantee.resource : {}"
validations:
  - expression: variables.present || !(oldObject.metadata.name in ['default', 'root'])
    message: the queues default and root can not be deleted
  - expression: >-
      !variables.present || !has(object.spec.parent) || object.spec.parent != object.metadata.name
    message: a queue cannot use itself as parent
  - expression: >-
      [variables.capability, variables.deserved, variables.guarantee].all(list, list.all(r, quantity(string(list[r])).compareTo(quantity('0')) >= 0))
    message: must be greater than or equal to 0
  - expression: >-
      variables.guarantee.all(r, r in variables.deserved && quantity(string(variables.deserved[r])).compareTo(quantity(string(variables.guarantee[r]))) >= 0)
    message: every guarantee must be in deserved and not be larger
  - expression: >-
      variables.deserved.all(r, !(r in variables.capability) || quantity(string(variables.deserved[r])).compareTo(quantity(string(variables.capability[r]))) <= 0)
    message: deserved must be <= capability
  - expression: >-
      !variables.present || !has(object.metadata.annotations) || !('volcano.sh/hierarchy' in object.metadata.annotations) || !('volcano.sh/hierarchy-weights' in object.metadata.annotations) || size(object.metadata.annotations['volcano.sh/hierarchy'].split('/')) == size(object.metadata.annotations['volcano.sh/hierarchy-weights'].split('/'))
    message: volcano.sh/hierarchy must have the same length with volcano.sh/hierarchy-weights
{{- end }}

{{- define "volcano.policy.podgroup" -}}
validations:
  - expression: >-
      !{{ include "volcano.policy.tiers" "object.spec" }} && (!has(object.spec.subGroupPolicy) || object.spec.subGroupPolicy.all(s, !{{ include "volcano.policy.tiers" "s" }}))
    message: must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously
{{- end }}

{{- define "volcano.policy.pod" -}}
variables:
  - name: budgets
    expression: >-
      has(object.metadata.annotations) ? ['volcano.sh/jdb-min-available', 'volcano.sh/jdb-max-unavailable'].filter(n, n in object.metadata.annotations).map(n, object.metadata.annotations[n]) : []
validations:
  - expression: size(variables.budgets) < 2
    message: not allow configure multiple annotations volcano.sh/jdb-min-available and volcano.sh/jdb-max-unavailable
  - expression: variables.budgets.all(b, b.matches('^([1-9][0-9]*|[1-9][0-9]?%)$'))
    message: must be a positive integer, or a valid percentage which between 1% ~ 99%
{{- end }}

{{- define "volcano.policy.hypernode" -}}
validations:
  - expression: has(object.spec.members) && size(object.spec.members) > 0
    message: member must have at least one member
  # An invalid pattern is an error of the evaluation, which rejects the object.
  - expression: >-
      object.spec.members.all(m, !has(m.selector) || !has(m.selector.regexMatch) || !has(m.selector.regexMatch.pattern) || ('node'.matches(m.selector.regexMatch.pattern) ? true : true))
    message: member regexMatch pattern is invalid
{{- end }}

{{- define "volcano.policy.jobflow" -}}
variables:
  - name: flows
    expression: "has(object.spec.flows) ? object.spec.flows : []"
validations:
  - expression: >-
      variables.flows.all(f, !has(f.dependsOn) || !has(f.dependsOn.targets) || f.dependsOn.targets.all(t, t != f.name && variables.flows.exists(g, g.name == t)))
    message: "jobflow Flow is not DAG: a target is not defined, or is the flow itself"
{{- end }}

{{- define "volcano.mutation.job" -}}
{{- $scheduler := .Values.custom.scheduler_name | default "volcano" }}
expression: >-
  (has(object.spec.queue) && object.spec.queue != '' ? [] : [JSONPatch{op: 'add', path: '/spec/queue', value: 'default'}])
  + (has(object.spec.schedulerName) && object.spec.schedulerName != '' ? [] : [JSONPatch{op: 'add', path: '/spec/schedulerName', value: {{ $scheduler | squote }}}])
  + (has(object.spec.maxRetry) && object.spec.maxRetry != 0 ? [] : [JSONPatch{op: 'add', path: '/spec/maxRetry', value: 3}])
  + (has(object.spec.minAvailable) && object.spec.minAvailable != 0 || !has(object.spec.tasks) ? [] : [JSONPatch{op: 'add', path: '/spec/minAvailable', value: object.spec.tasks.map(t, has(t.minAvailable) ? t.minAvailable : (has(t.replicas) ? t.replicas : 0)).sum()}])
  + (!has(object.spec.plugins) || !['tensorflow', 'mpi', 'pytorch', 'ray'].exists(p, p in object.spec.plugins) || 'svc' in object.spec.plugins ? [] : [JSONPatch{op: 'add', path: '/spec/plugins/svc', value: []}])
  + (!has(object.spec.plugins) || !('mpi' in object.spec.plugins) || 'ssh' in object.spec.plugins ? [] : [JSONPatch{op: 'add', path: '/spec/plugins/ssh', value: []}])
{{- end }}

{{- define "volcano.mutation.queue" -}}
expression: >-
  (has(object.spec) ? [] : [JSONPatch{op: 'add', path: '/spec', value: Object.spec{}}])
  + (has(object.spec) && has(object.spec.reclaimable) ? [] : [JSONPatch{op: 'add', path: '/spec/reclaimable', value: true}])
  + (has(object.spec) && has(object.spec.weight) && object.spec.weight != 0 ? [] : [JSONPatch{op: 'add', path: '/spec/weight', value: 1}])
  + (has(object.metadata.annotations) && 'volcano.sh/hierarchy' in object.metadata.annotations && 'volcano.sh/hierarchy-weights' in object.metadata.annotations && object.metadata.annotations['volcano.sh/hierarchy'] != 'root' && !object.metadata.annotations['volcano.sh/hierarchy'].startsWith('root/') ? [
      JSONPatch{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey('volcano.sh/hierarchy'), value: 'root/' + object.metadata.annotations['volcano.sh/hierarchy']},
      JSONPatch{op: 'add', path: '/metadata/annotations/' + jsonpatch.escapeKey('volcano.sh/hierarchy-weights'), value: '1/' + object.metadata.annotations['volcano.sh/hierarchy-weights']}] : [])
{{- end }}

{{- define "volcano.mutation.podgroup" -}}
expression: >-
  has(object.spec.queue) && object.spec.queue == 'default' && has(namespaceObject.metadata.annotations) && 'scheduling.volcano.sh/queue-name' in namespaceObject.metadata.annotations && namespaceObject.metadata.annotations['scheduling.volcano.sh/queue-name'] != ''
  ? [JSONPatch{op: 'replace', path: '/spec/queue', value: namespaceObject.metadata.annotations['scheduling.volcano.sh/queue-name']}] : []
{{- end }}

{{- define "volcano.mutation.pod" -}}
{{- $gate := "scheduling.volcano.sh/queue-allocation-gate" }}
expression: >-
  has(object.metadata.annotations) && {{ $gate | squote }} in object.metadata.annotations && object.metadata.annotations[{{ $gate | squote }}] == 'true'
  ? (!has(object.spec.schedulingGates) || size(object.spec.schedulingGates) == 0
     ? [JSONPatch{op: 'add', path: '/spec/schedulingGates', value: [{'name': {{ $gate | squote }}}]}]
     : (object.spec.schedulingGates.exists(g, g.name == {{ $gate | squote }}) ? [] : [JSONPatch{op: 'add', path: '/spec/schedulingGates/-', value: {'name': {{ $gate | squote }}}}]))
  : []
{{- end }}
