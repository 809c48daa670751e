"""SVI for one task, the task loop in which a posterior becomes a prior, and the parts that methods share."""
