"""Opens datasets: the manifest, and the object that ``bp.open`` returns."""
