"""What any program needs: compiling, random streams, threads, progress, files. Knows nothing of clicks."""
