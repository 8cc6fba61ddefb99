"""What users and the API server see: the CRD, the status and its reasons, validation, and the impact of a change. Pure."""
