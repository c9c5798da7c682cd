"""Ranks as real processes: started, fed, watched, ended; one clear error."""
