//! TB10's figures for the references to memory that its workloads make.

/// `RequestTarget` holds the figures of one kind of request (TB10 Table 2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestTarget {
    /// The device, as metrics name it.
    pub device: &'static str,
    /// True if the device writes memory.
    pub writes: bool,
    /// Its share of the references of devices.
    pub share: f64,
    /// The mean size in bytes; a KB is 1,000 bytes.
    pub bytes: f64,
    /// The share of its references that are sequential.
    pub sequential: f64,
}

/// `DeviceTarget` holds the figures of one workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceTarget {
    /// The workload.
    pub workload: &'static str,
    /// The shares of the references: the processor reads, the processor writes, devices read, devices write (Table 1).
    pub shares: [f64; 4],
    /// The shares of the processor's reads and writes that are sequential (Table 2).
    pub sequential: [f64; 2],
    /// The kinds of requests.
    pub requests: &'static [RequestTarget],
}

const fn request(
    device: &'static str,
    writes: bool,
    share: f64,
    kilobytes: f64,
    sequential: f64,
) -> RequestTarget {
    RequestTarget { device, writes, share, bytes: 1_000.0 * kilobytes, sequential }
}

/// TB10's figures, in the order of its Table 1.
pub const DEVICE_TARGETS: &[DeviceTarget] = &[
    DeviceTarget {
        workload: "file-copy",
        shares: [0.334, 0.277, 0.196, 0.193],
        sequential: [0.585, 0.606],
        requests: &[request("disk", false, 0.505, 393.0, 0.989), request("disk", true, 0.495, 110.0, 0.967)],
    },
    DeviceTarget {
        workload: "tpch",
        shares: [0.60, 0.20, 0.001, 0.199],
        sequential: [0.452, 0.041],
        requests: &[request("disk", false, 0.005, 19.0, 0.732), request("disk", true, 0.995, 121.0, 0.968)],
    },
    DeviceTarget {
        workload: "specweb",
        shares: [0.75, 0.24, 0.0076, 0.0023],
        sequential: [0.255, 0.010],
        requests: &[
            request("disk", false, 0.244, 10.0, 0.953),
            request("disk", true, 0.017, 7.0, 0.939),
            request("network", false, 0.52, 0.3, 0.486),
            request("network", true, 0.219, 0.16, 0.041),
        ],
    },
];
