{{- define "landfall.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{/* What everything of this release is called; short enough for "-operator" behind it. */}}
{{- define "landfall.fullname" -}}
{{- $name := include "landfall.name" . -}}
{{- $both := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- .Values.fullnameOverride | default $both | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "landfall.operator" -}}
{{ include "landfall.fullname" . }}-operator
{{- end }}

{{/* What the operator's pods are found by. Drivers' network policies let exactly these in, so the operator is told them. */}}
{{- define "landfall.selector" -}}
app.kubernetes.io/name: landfall-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* What `helm test` runs; not the operator's labels, or drivers would let it in. */}}
{{- define "landfall.testSelector" -}}
app.kubernetes.io/name: landfall-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "landfall.labels" -}}
{{ include "landfall.selector" . }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: landfall
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "landfall.account" -}}
{{- .Values.serviceAccount.name | default (.Values.serviceAccount.create | ternary (include "landfall.operator" .) "default") }}
{{- end }}

{{/* An image's full name. Takes {root, image}. */}}
{{- define "landfall.image" -}}
{{- $registry := .root.Values.image.registry | trimSuffix "/" -}}
{{- $name := (ne $registry "") | ternary (printf "%s/%s" $registry .image.repository) .image.repository -}}
{{- if .image.digest }}{{ $name }}@{{ .image.digest }}{{ else }}{{ $name }}:{{ .image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* Namespaces of groups that are named; "" stands for all of them. */}}
{{- define "landfall.clusterWide" -}}
{{- if not .Values.watch.namespaces }}true{{ end }}
{{- end }}
