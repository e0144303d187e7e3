"""Files in object stores and on web servers, read without Beam."""
