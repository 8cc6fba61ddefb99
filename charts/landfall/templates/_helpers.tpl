{{- define "landfall.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{/* The name of the release's objects; short enough to append "-operator". A Service's name has no dots, a release's may. */}}
{{- define "landfall.fullname" -}}
{{- $name := include "landfall.name" . -}}
{{- $both := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- .Values.fullnameOverride | default (replace "." "-" $both) | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "landfall.operator" -}}
{{ include "landfall.fullname" . }}-operator
{{- end }}

{{/* The Secret with the key by which drivers recognize the operator; the operator makes it. */}}
{{- define "landfall.signingKey" -}}
{{ include "landfall.operator" . }}-key
{{- end }}

{{/* All of the operator's RBAC rules in the namespaces of its groups. */}}
{{- define "landfall.groupRights" -}}
{{- include "landfall.rights" . }}
{{- if .Values.compatibility.bearerTokens }}
{{ include "landfall.bearerRights" . }}
{{- end }}
{{- end }}

{{/*
The labels that select the operator's pods. The drivers' NetworkPolicies admit exactly these pods to the control port, so
the operator gets the labels as a setting, too.
*/}}
{{- define "landfall.selector" -}}
app.kubernetes.io/name: landfall-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The labels of the `helm test` pod. Not the operator's: the drivers' NetworkPolicies would admit it. */}}
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
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "landfall.account" -}}
{{- .Values.serviceAccount.name | default (.Values.serviceAccount.create | ternary (include "landfall.operator" .) "default") }}
{{- end }}

{{/* The full name of an image. Takes {root, image}. */}}
{{- define "landfall.image" -}}
{{- $registry := .root.Values.image.registry | trimSuffix "/" -}}
{{- if not $registry }}{{ fail "\n\nimage.registry is not set, and no public registry has the images of Landfall.\nBuild them and push them to a registry of yours (docs/guides/install.md#images), then: --set image.registry=registry.example:5000\nImages that were loaded into the nodes, as by kind load:                             --set image.registry=docker.io/library\n" }}{{ end -}}
{{- $name := printf "%s/%s" $registry .image.repository -}}
{{- if .image.digest }}{{ $name }}@{{ .image.digest }}{{ else }}{{ $name }}:{{ kindIs "float64" .image.tag | ternary (printf "%.0f" (float64 .image.tag)) (.image.tag | default .root.Chart.AppVersion | toString) }}{{ end }}
{{- end }}

{{/* The names of the Secrets for the registry, separated by commas: each is given as a name, or as in a pod's spec. */}}
{{- define "landfall.pullSecretNames" -}}
{{- $names := list }}
{{- range .Values.image.pullSecrets }}{{ $names = append $names (kindIs "map" . | ternary (get (kindIs "map" . | ternary . dict) "name") .) }}{{ end }}
{{- join "," $names }}
{{- end }}

{{/* The imagePullSecrets of a pod's spec; empty if there are none. */}}
{{- define "landfall.pullSecrets" -}}
{{- if .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range splitList "," (include "landfall.pullSecretNames" .) }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The label of what the operator of this release reports to Prometheus. */}}
{{- define "landfall.releaseLabel" -}}
{{ .Release.Namespace }}/{{ include "landfall.operator" . }}
{{- end }}
