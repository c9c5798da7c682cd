"""What runs in a rank with an answer, one module per exercise; it decides nothing."""
