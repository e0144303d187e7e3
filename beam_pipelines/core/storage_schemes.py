"""The filesystems of Beam for URLs of object stores: scheme -> module. Imports nothing, so that
start-up can name them.
"""

from __future__ import annotations

# URL scheme -> what has its files, and imports a client; ``object_stores`` imports it when it is
# asked for.
FILESYSTEM_FOR_SCHEME = {
    "azfs": "apache_beam.io.azure.blobstoragefilesystem",
    "gs": "apache_beam.io.gcp.gcsfilesystem",
    "s3": "apache_beam.io.aws.s3filesystem",
}
