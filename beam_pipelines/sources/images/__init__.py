"""Images: folders, CIFAR archives and IDX files."""
