"""Many machines: who a rank is, how ranks are started, how far they scale."""
