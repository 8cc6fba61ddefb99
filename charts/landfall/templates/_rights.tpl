{{/*
The operator's RBAC rules in the namespaces of its groups. They equal landfall_operator.objects.rbac; a test compares the two.
The rules for pods include those of a driver: Kubernetes lets nobody grant rights that they do not have themselves.
*/}}
{{- define "landfall.rights" -}}
- apiGroups: [landfall.dev]
  resources: [consumergroups]
  verbs: [list, watch, patch]
- apiGroups: [landfall.dev]
  resources: [consumergroups/status]
  verbs: [patch]
- apiGroups: [landfall.dev]
  resources: [backfills]
  verbs: [list, create, patch, delete]
- apiGroups: [landfall.dev]
  resources: [backfills/status]
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
  resources: [events]
  verbs: [get, list, create, patch]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [controllerrevisions]
  verbs: [list, watch, create, delete]
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

{{/*
The operator's further RBAC rules in the namespaces of its groups while drivers run there that know no signatures: it
reads, and where need be makes, the Secret with the token of such a driver.
*/}}
{{- define "landfall.bearerRights" -}}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create]
{{- end }}

{{/*
The operator's RBAC rules in the whole cluster where it watches single namespaces. They outlive the RoleBindings of a
namespace that is deleted, whose groups would otherwise keep it from going: their finalizer has to be removed.
*/}}
{{- define "landfall.finalizerRights" -}}
- apiGroups: [landfall.dev]
  resources: [consumergroups, backfills]
  verbs: [list, patch]
- apiGroups: [landfall.dev]
  resources: [consumergroups/status]
  verbs: [patch]
{{- end }}

{{/*
The operator's RBAC rules in the whole cluster where it watches the namespaces with a label: it binds itself to the role
with its rights in each of them, and the ValidatingAdmissionPolicy refuses any other place.
*/}}
{{- define "landfall.labelledRights" -}}
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [rolebindings]
  verbs: [list, create, delete]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles]
  verbs: [bind]
  resourceNames: [{{ include "landfall.clusterName" . }}]
{{- end }}

{{/*
The operator's RBAC rules in its own namespace, whichever namespaces it watches: its Lease, and the Secret with its key. To
create is limited by name in a server-side apply only, which is how the operator makes that Secret.
*/}}
{{- define "landfall.ownRights" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "landfall.operator" . }}]
  verbs: [get, update]
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ include "landfall.signingKey" . }}]
  verbs: [get, create, patch]
{{- end }}
