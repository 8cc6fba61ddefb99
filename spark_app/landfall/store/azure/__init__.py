"""The store in a container of Azure Blob Storage."""
