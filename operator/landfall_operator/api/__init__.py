"""What users and the API server see: the CRD, the status, its reasons, validation, and what a change of spec means. Pure."""
