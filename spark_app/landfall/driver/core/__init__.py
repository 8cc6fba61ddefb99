"""What every room of the driver uses: tasks, threads, observations, retries, specs."""
