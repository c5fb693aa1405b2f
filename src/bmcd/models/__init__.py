"""The models people use, one file each, and their files on disk. Knows no rivals, measures or reports."""
