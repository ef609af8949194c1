//! Readers: what a log says is what is read, and what is no log is told by file and line.

use super::{Log, traces};
use crate::{
    alibaba::{read_nodes, slice_of},
    read::{Format, read},
    trace::{Dropped, Reading, open},
};
use flate2::{Compression, write::GzEncoder};
use gq_model::MiB;
use proptest::prelude::*;
use std::io::{Read, Write};

const SWF: &str = "; Computer: a small one
;
    1     10  5   100    4 -1 -1    8    60 1024 1  3  4 -1  1 -1 -1 -1
    2     10  5   100    4 -1 -1   -1    -1   -1 1  3  4 -1  1 -1 -1 -1
    3     11  5     0    4 -1 -1   -1    -1   -1 1  3  4 -1  1 -1 -1 -1

    4     12  5     9   -1 -1 -1   -1    -1   -1 1 -1  4 -1  1 -1 -1 -1
    5     13  5     9   90 -1 -1   -1    -1   -1 1 -1  4 -1  1 -1 -1 -1
    6     -1  5     9    1 -1 -1   -1    -1   -1 1 -1  4 -1  1 -1 -1 -1
    7     15  5     9    1 552.21 -1 -1  12   -1 1  9  4 -1  1 -1 -1 -1
";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut to = GzEncoder::new(Vec::new(), Compression::fast());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

#[test]
fn swf_is_read_by_the_rules_of_the_archive() {
    let reading = Reading { widest: Some(64), ..Reading::default() };
    for bytes in [SWF.as_bytes().to_vec(), gzip(SWF.as_bytes()), SWF.replace('\n', "\r\n").into_bytes()] {
        let (format, trace) = Log::new("log", &bytes).read(reading).unwrap();
        assert_eq!(format, Format::Swf);
        let seen: Vec<_> =
            trace.jobs.iter().map(|j| (j.id, j.submit, j.run, j.estimate, j.cpus, j.line)).collect();
        assert_eq!(seen, [(1, 10, 60, 60, 8, 3), (2, 10, 100, 100, 4, 4), (7, 15, 9, 12, 1, 10)]);
        assert_eq!(trace.jobs[0].memory, MiB(8));
        assert_eq!(trace.names.text(trace.jobs[0].user), "u3");
        assert_eq!(trace.notes.dropped, Dropped { no_run: 1, no_width: 1, too_wide: 1, no_submit: 1 });
        assert_eq!(trace.notes.malformed, 0);
    }
    let log = Log::new("log", SWF.as_bytes());
    let (_, trace) = log.read(Reading { first: Some(2), ..reading }).unwrap();
    assert_eq!(trace.jobs.iter().map(|j| j.id).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_line_that_does_not_parse_is_counted_or_refused_by_file_and_line() {
    for (bad, why) in [
        ("1 2 3", "has 3 numbers"),
        ("    8 16 5 x 1 -1 -1 -1 12 -1 1 9 4 -1 1 -1 -1 -1", "number 4 is none: `x`"),
        ("   -8 16 5 9 1 -1 -1 -1 12 -1 1 9 4 -1 1 -1 -1 -1", "number is negative"),
        ("    8 16 5 9 1 -1 -1 -1 12 -1 1 9 4 -1 1 -1 -1 -1 7", "has 19 numbers"),
        (
            "    8 100000000001 5 9 1 -1 -1 -1 12 -1 1 9 4 -1 1 -1 -1 -1",
            "submitted at: 100000000001 seconds are out of all reason",
        ),
        ("    8 16 5 1e300 1 -1 -1 -1 12 -1 1 9 4 -1 1 -1 -1 -1", "run time: "),
        ("    8 16 5 9 1 -1 -1 -1 100000000001 -1 1 9 4 -1 1 -1 -1 -1", "time limit: "),
    ] {
        let log = Log::new("bad.swf", format!("{SWF}{bad}\n").as_bytes());
        let (_, trace) = log.read(Reading::default()).unwrap();
        assert_eq!((trace.notes.malformed, trace.notes.kept.len()), (1, 1), "{bad}");
        let told = trace.notes.kept[0].to_string();
        assert!(told.contains("bad.swf:11: ") && told.contains(why), "{told}");
        let refused = log.read(Reading { strict: true, ..Reading::default() }).unwrap_err();
        assert_eq!(refused, told);
    }
    let binary = Log::new("bad.swf", &[SWF.as_bytes(), &[0xff, 0xfe, b'\n']].concat());
    assert_eq!(binary.read(Reading::default()).unwrap().1.notes.malformed, 1);
}

#[test]
fn what_is_no_log_is_told() {
    for bytes in [&b""[..], b"; only words\n", b"<html>\n</html>\n"] {
        let told = Log::new("none", bytes).read(Reading::default()).unwrap_err();
        assert!(told.contains("no job in it, read as swf"), "{told}");
    }
    let mut cut = gzip(SWF.as_bytes());
    cut.truncate(cut.len() / 2);
    let told = Log::new("cut.swf.gz", &cut).read(Reading::default()).unwrap_err();
    assert!(told.contains("cut.swf.gz: cannot be read"), "{told}");
    let nodes = Log::new("nodes.csv", b"sn,cpu_milli,memory_mib,gpu,model\na,1000,1,0,\n");
    assert!(nodes.read(Reading::default()).unwrap_err().contains("list of nodes"));
    let told = read(std::path::Path::new("/nowhere/log"), None, Reading::default()).unwrap_err().to_string();
    assert!(told.starts_with("/nowhere/log: cannot be read"), "{told}");
    let told = Log::new("x", b"SQLite format 3\0 and nothing").read(Reading::default()).unwrap_err();
    assert!(told.contains("cannot be read"), "{told}");
}

#[test]
fn philly_counts_from_its_earliest_row() {
    let rows = "timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-08 07:01:55,10.5,8,84.0,6214e9
2017-10-09 07:01:xx,10.5,8,84.0,6214e9
2017-10-09 07:02:00,nan,8,84.0,6214e9
2017-10-09 07:02:00,1,2
2017-10-09 07:02:00,3,2,6,11cb48
";
    let (format, trace) = Log::new("p.csv", rows.as_bytes()).read(Reading::default()).unwrap();
    assert_eq!(format, Format::Philly);
    let seen: Vec<_> = trace.jobs.iter().map(|j| (j.id, j.submit, j.run, j.cards, j.line)).collect();
    assert_eq!(seen, [(1, 86_400, 66, 1, 2), (2, 0, 11, 8, 3), (6, 86_405, 3, 2, 7)]);
    assert_eq!(trace.notes.malformed, 3);
    assert_eq!(trace.jobs[0].user, trace.jobs[2].user);
}

#[test]
fn alibaba_pods_and_nodes_are_read() {
    let rows = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0000,12000,16384,1,1000,,LS,Running,0,100,10
openb-pod-0001,6100,12288,1,460,V100M16|V100M32,LS,Pending,5,25,
openb-pod-0002,6000,12288,0,0,T4,BE,Running,7,8,7
openb-pod-0003,6000,12288,2,460,,BE,Running,7,8,7
openb-pod-0004,6000,12288,2,1000,,BE,Running,7,8
";
    let (format, trace) = Log::new("a.csv", rows.as_bytes()).read(Reading::default()).unwrap();
    assert_eq!(format, Format::Alibaba);
    let seen: Vec<_> =
        trace.jobs.iter().map(|j| (j.id, j.submit, j.run, j.cpus, j.cards, j.card_milli)).collect();
    assert_eq!(seen, [(0, 0, 90, 12, 1, 1000), (1, 5, 20, 7, 1, 460), (2, 7, 1, 6, 0, 0)]);
    assert_eq!(trace.names.text(trace.jobs[2].model), "T4");
    assert_eq!((trace.notes.malformed, trace.notes.taken_as.len()), (2, 4));
    let nodes = Log::new("n.csv", b"sn,cpu_milli,memory_mib,gpu,model\na,64500,262144,2,P100\nb,1000,1,0,\n");
    let nodes = read_nodes(&nodes.path).unwrap();
    assert_eq!((nodes[0].cpus, nodes[0].cards, nodes[1].cards), (64, 2, 0));
    for (bad, at) in [("a,x,1,0,\n", ":2: `cpu_milli`"), ("a,1000,1,0\n", ":2: has 4 cells")] {
        let log = Log::new("n.csv", format!("sn,cpu_milli,memory_mib,gpu,model\n{bad}").as_bytes());
        let told = read_nodes(&log.path).unwrap_err().to_string();
        assert!(told.contains(at), "{told}");
    }
}

#[test]
fn parts_of_a_card_become_the_slices_that_hold_them() {
    for (milli, sevenths) in [
        (0, None),
        (1, Some(1)),
        (143, Some(1)),
        (144, Some(2)),
        (286, Some(2)),
        (429, Some(3)),
        (460, Some(4)),
        (571, Some(4)),
        (572, None),
        (1000, None),
    ] {
        assert_eq!(slice_of(milli), sevenths, "{milli}");
    }
}

#[test]
fn the_real_logs_read_whole() {
    let Some(folder) = traces() else { return };
    for (name, widest, kept) in [
        ("KTH-SP2-1996-2.1-cln.swf.gz", Some(100), 27_992),
        ("HPC2N-2002-2.1-cln.swf.gz", Some(240), 202_876),
        ("LLNL-Thunder-2007-1.1-cln.swf.gz", Some(4008), 113_613),
        ("NASA-iPSC-1993-3.1-cln.swf.gz", None, 18_066),
        ("alibaba-gpu-v2023-openb_pod_list_default.csv.gz", None, 8_151),
        ("philly-2017-09-04_2017-10-31.csv.gz", None, 52_849),
    ] {
        let (_, trace) = read(&folder.join(name), None, Reading { strict: true, first: None, widest })
            .unwrap_or_else(|trouble| panic!("{name}: {trouble}"));
        assert_eq!(trace.jobs.len(), kept, "{name}");
    }
    let nodes = folder.join("alibaba-gpu-v2023-openb_node_list_gpu_node.csv.gz");
    let nodes = read_nodes(&nodes).unwrap();
    assert_eq!((nodes.len(), nodes.iter().map(|n| n.cards).sum::<u32>()), (1213, 6212));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// No bytes make a reader fail otherwise than by words, and what is kept is fit to be simulated.
    #[test]
    fn no_bytes_harm_a_reader(lines in prop::collection::vec("[-0-9.x ,\u{e9};]{0,60}", 0..20), head in 0usize..4, zip: bool) {
        let heads = [
            "",
            "timestamp,duration,num_gpus,gpu_time,cluster\n",
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n",
            "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18\n",
        ];
        let text = format!("{}{}", heads[head], lines.join("\n"));
        let bytes = if zip { gzip(text.as_bytes()) } else { text.clone().into_bytes() };
        let log = Log::new("log", &bytes);
        let mut unpacked = Vec::new();
        open(&log.path).unwrap().read_to_end(&mut unpacked).unwrap();
        prop_assert_eq!(unpacked, text.as_bytes());
        if let Ok((_, trace)) = log.read(Reading::default()) {
            for job in &trace.jobs {
                prop_assert!(job.run > 0 && job.run <= job.estimate && job.width() > 0 && job.submit >= 0);
            }
        }
    }
}
