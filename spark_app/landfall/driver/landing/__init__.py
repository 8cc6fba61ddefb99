"""Plans, runs, commits and completes batches of a topic partition, and repairs what was lost."""
