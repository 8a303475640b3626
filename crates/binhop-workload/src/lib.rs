//! binhop-workload
