"""What the operating system gives: the machine, processes, sockets, signals."""
