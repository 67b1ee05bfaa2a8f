"""The lab: generators of scenarios, the simulator, experiments and their claims."""
