//! binhop-oracle
