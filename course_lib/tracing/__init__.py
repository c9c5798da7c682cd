"""What happened when: events, where they come from, traces of all ranks."""
