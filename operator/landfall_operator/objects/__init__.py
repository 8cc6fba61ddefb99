"""The objects that the operator creates for a group, and the RBAC rules that this needs. Pure."""
