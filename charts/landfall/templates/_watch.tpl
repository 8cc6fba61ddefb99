{{/* Which namespaces the operator watches: "labelled", "listed" or "all". */}}
{{- define "landfall.watchMode" -}}
{{- if has "*" .Values.watch.namespaces }}
{{- if gt (len .Values.watch.namespaces) 1 }}{{ fail "watch.namespaces: \"*\" stands for all namespaces and must be the only entry" }}{{ end -}}
all
{{- else if .Values.watch.namespaces }}listed
{{- else }}labelled
{{- end }}
{{- end }}

{{/* The name of the ClusterRole with the operator's rights, and of what else is the operator's in the whole cluster. */}}
{{- define "landfall.clusterName" -}}
{{ .Release.Namespace }}-{{ include "landfall.operator" . }}
{{- end }}

{{/* "true" if the cluster has ValidatingAdmissionPolicies and one is wanted, else empty. */}}
{{- define "landfall.hasPolicy" -}}
{{- if and .Values.admissionPolicy.enabled (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) }}true{{ end }}
{{- end }}

{{/*
Fails an upgrade that would leave groups without an operator: those in namespaces that the running release watches and
this one would not. `lookup` finds nothing in `helm template`, as Argo CD uses it: there, the operator's log, its metric
landfall_operator_unwatched_groups and the alert LandfallGroupsNotWatched name them.
*/}}
{{- define "landfall.checkUpgrade" -}}
{{- include "landfall.checkTokens" . }}
{{- $mode := include "landfall.watchMode" . }}
{{- $running := lookup "apps/v1" "Deployment" .Release.Namespace (include "landfall.operator" .) }}
{{- if and $running (ne $mode "listed") (.Capabilities.APIVersions.Has "landfall.dev/v1alpha1/ConsumerGroup") }}
{{- $before := dict }}
{{- range (first $running.spec.template.spec.containers).env }}{{ $_ := set $before .name (.value | default "") }}{{ end }}
{{- $watched := splitList "," (get $before "LANDFALL_NAMESPACES") | compact }}
{{- $key := splitList "=" .Values.watch.label | first }}
{{- $value := splitList "=" .Values.watch.label | last }}
{{- $lost := list }}
{{- range (lookup "landfall.dev/v1alpha1" "ConsumerGroup" "" "").items }}
{{- $name := .metadata.namespace }}
{{- if not (or (has $name $lost) (and $watched (not (has $name $watched))) (get $before "LANDFALL_NAMESPACE_LABEL")) }}
{{- $labels := (lookup "v1" "Namespace" "" $name).metadata.labels | default dict }}
{{- if or (hasPrefix "kube-" $name) (and (eq $mode "labelled") (ne (get $labels $key) $value)) }}
{{- $lost = append $lost $name }}
{{- end }}
{{- end }}
{{- end }}
{{- if $lost }}
{{- fail (printf "\n\nnothing was changed: the running release manages groups in namespaces that this one would not watch: %s\nEither label them:           kubectl label namespace %s %s\nor keep watching all others: --set 'watch.namespaces={*}'\nGroups in kube-* namespaces are not managed any more: move them.\n" (join ", " $lost) (join " " $lost) .Values.watch.label) }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Fails an upgrade of a release whose operator sent tokens until somebody has said whether this one may read them: it could
not command the drivers that run.
*/}}
{{- define "landfall.checkTokens" -}}
{{- $running := lookup "apps/v1" "Deployment" .Release.Namespace (include "landfall.operator" .) }}
{{- if and $running (kindIs "invalid" .Values.compatibility.bearerTokens) (.Capabilities.APIVersions.Has "landfall.dev/v1alpha1/ConsumerGroup") }}
{{- $signs := false }}
{{- range (first $running.spec.template.spec.containers).env }}{{ if eq .name "LANDFALL_SIGNING_KEY" }}{{ $signs = true }}{{ end }}{{ end }}
{{- if and (not $signs) (lookup "landfall.dev/v1alpha1" "ConsumerGroup" "" "").items }}
{{- fail "\n\nnothing was changed: drivers of the running release take commands with the token of a Secret only, and this operator may read none.\nUntil they have been replaced:   --set compatibility.bearerTokens=true\nTo do without commands to them:  --set compatibility.bearerTokens=false\n" }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The groups that another operator manages, for the notes of a release; empty if there are none. `lookup` finds nothing in
`helm template`.
*/}}
{{- define "landfall.foreignGroups" -}}
{{- if .Capabilities.APIVersions.Has "landfall.dev/v1alpha1/ConsumerGroup" }}
{{- $self := printf "%s/%s" .Release.Namespace (include "landfall.operator" .) }}
{{- $others := list }}
{{- range (lookup "landfall.dev/v1alpha1" "ConsumerGroup" "" "").items }}
{{- $holder := get (.metadata.annotations | default dict) "landfall.dev/operator" }}
{{- if and $holder (ne $holder $self) }}
{{- $others = append $others (printf "%s/%s (%s)" .metadata.namespace .metadata.name $holder) }}
{{- end }}
{{- end }}
{{- if $others -}}
Groups that another operator manages, and this one leaves alone: {{ len $others }}, such as {{ slice $others 0 (min 5 (len $others) | int) | join ", " }}.
If that operator is gone, remove its annotation and this one takes them:

  kubectl -n NAMESPACE annotate consumergroup NAME landfall.dev/operator-
{{- end }}
{{- end }}
{{- end }}
