"""What published laws and points choose at a budget, before any run of one's own."""
