"""Files in object stores and on web servers; ``beam`` has all files.

The modules of this folder know no Beam, for readers; those of ``beam`` go through its filesystems.
"""
