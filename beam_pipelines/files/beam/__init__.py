"""Files on this machine and in object stores, through Beam's filesystems."""
