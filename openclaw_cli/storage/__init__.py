"""The SQLite stores: the only room that knows apsw."""
