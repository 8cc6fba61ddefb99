{{/* The environment variables that landfall_operator.settings reads. */}}
{{- define "landfall.environment" -}}
LANDFALL_IMAGE: {{ include "landfall.image" (dict "root" . "image" .Values.image.spark) | quote }}
LANDFALL_IMAGE_PULL_POLICY: {{ .Values.image.pullPolicy | quote }}
LANDFALL_IMAGE_PULL_SECRETS: {{ include "landfall.pullSecretNames" . | quote }}
LANDFALL_LEASE: {{ include "landfall.operator" . | quote }}
LANDFALL_LOG_FORMAT: {{ .Values.operator.logFormat | quote }}
LANDFALL_LOG_LEVEL: {{ .Values.operator.logLevel | quote }}
{{- $pods := .Values.pods }}
{{- $common := deepCopy $pods.common }}
{{- if not (kindIs "invalid" $pods.securityContext) }}{{ $_ := set $common "securityContext" $pods.securityContext }}{{ end }}
{{- with mergeOverwrite (deepCopy $common) (deepCopy $pods.driver) }}
LANDFALL_DRIVER_DEFAULTS: {{ toJson . | quote }}
{{- end }}
{{- with mergeOverwrite (deepCopy $common) (deepCopy $pods.executor) }}
LANDFALL_EXECUTOR_DEFAULTS: {{ toJson . | quote }}
{{- end }}
{{- with $pods.inheritedLabels }}
LANDFALL_INHERITED_LABELS: {{ join "," . | quote }}
{{- end }}
LANDFALL_MAX_ROLLOUTS: {{ .Values.operator.maxRollouts | quote }}
{{- with .Values.drivers.networkPolicy.from }}
LANDFALL_METRICS_READERS: {{ toJson . | quote }}
{{- end }}
{{- $mode := include "landfall.watchMode" . }}
LANDFALL_NAMESPACES: {{ eq $mode "listed" | ternary (join "," .Values.watch.namespaces) "" | quote }}
{{- if eq $mode "labelled" }}
LANDFALL_NAMESPACE_LABEL: {{ .Values.watch.label | quote }}
LANDFALL_NAMESPACE_ROLE: {{ .Values.rbac.create | ternary (include "landfall.clusterName" .) "" | quote }}
LANDFALL_SERVICE_ACCOUNT: {{ include "landfall.account" . | quote }}
{{- end }}
{{- with .Values.watch.selector }}
LANDFALL_SELECTOR: {{ . | quote }}
{{- end }}
LANDFALL_SIGNING_KEY: {{ include "landfall.signingKey" . | quote }}
LANDFALL_OPERATOR_LABELS: {{ range $name, $value := include "landfall.selector" . | fromYaml }}{{ $name }}={{ $value }},{{ end }}
{{- end }}
