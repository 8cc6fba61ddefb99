{{/*
What the operator may do in the namespaces of its groups: exactly landfall_operator.rights, a test compares the two.
The rights on pods, services, configmaps and claims are also those of a driver: nobody can grant what he has not.
*/}}
{{- define "landfall.rights" -}}
- apiGroups: [landfall.dev]
  resources: [consumergroups]
  verbs: [get, list, watch, patch]
- apiGroups: [landfall.dev]
  resources: [consumergroups/status]
  verbs: [patch]
- apiGroups: [landfall.dev]
  resources: [consumergroups/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods, services, configmaps, persistentvolumeclaims]
  verbs: [create, get, list, watch, patch, update, delete, deletecollection]
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, watch, create, patch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create]
- apiGroups: [""]
  resources: [events]
  verbs: [get, create, patch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [get, list, watch, create, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
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
