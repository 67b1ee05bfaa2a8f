"""The Spark side: named steps from tables to tables, each of which can be run and looked at alone."""
