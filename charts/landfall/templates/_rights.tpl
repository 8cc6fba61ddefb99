{{/*
What the operator may do in the namespaces of its groups: exactly landfall_operator.objects.rbac, a test compares the two.
The rights on pods are also those of a driver: nobody can grant what he has not.
*/}}
{{- define "landfall.rights" -}}
- apiGroups: [landfall.dev]
  resources: [consumergroups]
  verbs: [list, watch, patch]
- apiGroups: [landfall.dev]
  resources: [consumergroups/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [create, get, list, watch, delete, deletecollection]
- apiGroups: [""]
  resources: [serviceaccounts, services]
  verbs: [list, watch, create, patch]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create]
- apiGroups: [""]
  resources: [events]
  verbs: [get, create, patch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get, list, watch, create, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [list, watch, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch, create, patch]
{{- end }}

{{/* What it may do in its own namespace, whatever it watches: hold its Lease. */}}
{{- define "landfall.ownRights" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "landfall.operator" . }}]
  verbs: [get, update]
{{- end }}
