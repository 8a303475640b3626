//! binhop-sim
