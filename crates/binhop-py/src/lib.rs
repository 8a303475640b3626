//! binhop-py
