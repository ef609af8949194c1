//! The forms in which people write their `#SBATCH` lines: real headers are taken unchanged, and mean what they meant.

use crate::lab::{Lab, Plan};
use serde_json::{Value, json};

fn lab() -> Lab {
    let node = "cpus = 64\nmemory = \"512G\"\nfeatures = [\"nvlink\", \"gen4\"]\n\
                [[node.gpu]]\nmodel = \"A100-SXM4-80GB\"\ncount = 4\nmemory = \"80G\"\n";
    Plan::new()
        .node("n1", node)
        .scheduler("priority_size = 0\npriority_age = 0")
        .tables("[[partition]]\nname = \"main\"\ndefault = true\n[[partition]]\nname = \"gpu\"\n")
        .start()
}

/// Submits a script held, and compares what `gqstat` says of it.
#[track_caller]
fn means(lab: &Lab, script: &str, expected: &Value) {
    let job = lab.script("-H", script);
    let view = job.view();
    for (key, value) in expected.as_object().unwrap() {
        let value = match value.as_str() {
            Some(text) => json!(
                text.replace("JOB", &job.id.to_string())
                    .replace("WORK", lab.work("").to_str().unwrap().trim_end_matches('/'))
            ),
            None => value.clone(),
        };
        assert_eq!(view[key], value, "{key} of\n{script}\n{view}");
    }
    assert_eq!(lab.say(&format!("gqcancel {}", job.id)).code, 0);
}

#[test]
fn headers_of_real_scripts_are_taken_unchanged() {
    let lab = lab();
    means(
        &lab,
        "#!/bin/bash -l\n#SBATCH --job-name=align      # what it is called\n#SBATCH --output=logs/%x-%j.out\n\
         #SBATCH --error=logs/%x-%j.err   # and here\n#SBATCH --time=1-12:00:00\n#SBATCH --nodes=1\n#SBATCH --ntasks=1\n\
         #SBATCH --cpus-per-task=8\n#SBATCH --mem=40GB\n##SBATCH --partition=nowhere\n# SBATCH --mem=1\n\n\
         module load samtools\n#SBATCH --time=never\n",
        &json!({"name": "align", "cpus": 8, "memory_mib": 40960, "time_limit": 129_600, "partition": "main",
                "stdout": "WORK/logs/align-JOB.out", "stderr": "WORK/logs/align-JOB.err", "gpu_count": 0}),
    );
    means(
        &lab,
        "#!/bin/bash\n#SBATCH -N1 -n 4 -c2 -t 1-0\n#SBATCH -p gpu --gres=gpu:2 --mem 50gb\nsrun true\n",
        &json!({"cpus": 8, "time_limit": 86_400, "partition": "gpu", "gpu_count": 2, "memory_mib": 51200}),
    );
    means(
        &lab,
        "#!/usr/bin/env bash\n#SBATCH --gres=gpu:a100:1\n#SBATCH -t 30\n#SBATCH --mem=8g\n#SBATCH --nodes 1\necho\n",
        &json!({"gpu_count": 1, "time_limit": 1800, "memory_mib": 8192}),
    );
    means(
        &lab,
        "#!/bin/sh\n#SBATCH --gpus-per-node=a100:4\n#SBATCH --time=5:30\n#SBATCH --mem=16000\n#SBATCH --exclusive\n",
        &json!({"gpu_count": 4, "time_limit": 330, "memory_mib": 16000, "exclusive": true}),
    );
    means(
        &lab,
        "#!/bin/bash\n#SBATCH --ntasks-per-node=8\n#SBATCH --mem-per-cpu 1885M\n#SBATCH --time=2-06\n#SBATCH --constraint=nvlink&gen4\n",
        &json!({"cpus": 8, "memory_mib": 15080, "time_limit": 194_400, "features": ["nvlink", "gen4"]}),
    );
    means(
        &lab,
        "#!/bin/bash\n\n# Parameters\n#SBATCH --comment='swept, not stirred'\n#SBATCH --cpus-per-task=4\n#SBATCH --error=WORK/%j_0_log.err\n\
         #SBATCH --gpus-per-task=1\n#SBATCH --job-name=\"a b\"\n#SBATCH --mem=4GB\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=2\n\
         #SBATCH --open-mode=append\n#SBATCH --time=5\n\n# command\nexport SUBMITIT_EXECUTOR=slurm\n",
        &json!({"comment": "swept, not stirred", "cpus": 8, "gpu_count": 2, "name": "a b", "time_limit": 300}),
    );
    means(
        &lab,
        "#!/usr/bin/env python3\n\n   # indented: no directive\n#SBATCH --job-name          spaced\n#SBATCH --ntasks            2\n\n\n\
         #SBATCH -e /dev/null -o /dev/null --export=ALL\n#SBATCH --chdir=\"/tmp\" --time=1:2:3\nimport os\n",
        &json!({"name": "spaced", "cpus": 2, "stdout": "/dev/null", "stderr": "/dev/null", "work_dir": "/tmp", "time_limit": 3723}),
    );
    means(
        &lab,
        "#!/bin/bash\n#SBATCH --gpus 1\n#SBATCH --gpu-mem=40G\n#SBATCH --mem-per-gpu=32G\n#SBATCH -A proj-42 -J %x.y\n\
         #SBATCH -o %A/%A_%a.out\n#SBATCH --nodelist=n1 --exclude=n[2-9],m7\n",
        &json!({"gpu_count": 1, "memory_mib": 32768, "account": "proj-42", "name": "%x.y", "stdout": "WORK/JOB/JOB_0.out"}),
    );
    means(
        &lab,
        "#!/bin/bash\n#SBATCH --gpus=A100:3\n#SBATCH --nice\n#GQ --time=90m\n#SBATCH --export=A=1\n#SBATCH --export=B=2\n#SBATCH --mem=512MB\n",
        &json!({"gpu_count": 3, "priority": -100, "time_limit": 5400, "memory_mib": 512}),
    );
}

#[test]
fn what_is_not_built_is_refused_by_file_line_and_name() {
    let lab = Lab::with_cards(1);
    let refused = [
        ("--array=0-99%x", "--array"),
        ("-a 3-1", "--array"),
        ("--dependency=afterok:", "--dependency"),
        ("-d sometimes", "--dependency"),
        ("--clusters=all", "--clusters"),
        ("--cpus-per-gpu=4", "--cpus-per-gpu"),
        ("--qos=normal,high", "--qos"),
        ("-q a,b", "--qos"),
        ("--mail-type=SOMETIMES", "--mail-type"),
        ("--signal=R:USR1@60", "--signal"),
        ("--hint=compute_bound", "--hint"),
        ("--licenses=matlab|octave", "--licenses"),
        ("--slice=1g.10gb,2g.20gb", "--slice"),
        ("--retry=often", "--retry"),
        ("--nodes=2", "--nodes=2"),
        ("-N 4", "--nodes=4"),
        ("--gres=shard:1", "--gres"),
        ("--gres=scratch:300G", "--gres"),
        ("--workdir=/tmp", "--workdir"),
        ("--tiem=3", "--tiem"),
        ("--time=soon", "--time"),
        ("--mem=lots", "--mem"),
    ];
    for (line, name) in refused {
        let script =
            lab.file("job.sh", format!("#!/bin/bash\n#SBATCH --job-name=fine\n#SBATCH {line}\ntrue\n"));
        let words = lab.run("gqsub", &[&script]).refused(2);
        assert!(words.contains("job.sh:3") && words.contains(name), "{line}: {words}");
        let mut typed: Vec<&str> = line.split(' ').collect();
        typed.extend(["--wrap", "true"]);
        let words = lab.run("gqsub", &typed).refused(2);
        assert!(words.contains(name), "{line}: {words}");
    }
    assert_eq!(lab.list("-t all"), Vec::<Value>::new(), "nothing was stored");
}

#[test]
fn a_script_written_for_slurm_runs_and_finds_its_variables() {
    let lab = lab();
    std::fs::create_dir(lab.work("logs")).unwrap();
    let job = lab.script(
        "",
        "#!/bin/bash\n#SBATCH --job-name=train\n#SBATCH --output=logs/%x-%j.out\n#SBATCH -N1 -n 2 --cpus-per-task=3 # six\n\
         #SBATCH --gres=gpu:a100:2 --mem=2G\n#SBATCH --time=0-00:10\n\nset -euo pipefail\n\
         echo $SLURM_JOB_ID $SLURM_JOBID $SLURM_JOB_NAME $SLURM_NTASKS $SLURM_CPUS_PER_TASK $SLURM_JOB_NODELIST\n\
         echo $SLURM_JOB_NUM_NODES $SLURM_NNODES $SLURM_PROCID $SLURM_LOCALID $SLURM_SUBMIT_DIR $SLURMD_NODENAME\n\
         echo $SLURM_MEM_PER_NODE $SLURM_CPUS_ON_NODE $SLURM_GPUS_ON_NODE $SLURM_JOB_PARTITION $SLURM_JOB_GPUS\n\
         echo ${SLURM_ARRAY_JOB_ID-none} ${SLURM_RESTART_COUNT-none} $GQ_JOB_ID $GQ_RUN $GQ_NODELIST $GQ_GPUS\n",
    );
    let id = job.id;
    let work = lab.work("");
    let work = work.to_str().unwrap().trim_end_matches('/');
    assert_eq!(
        job.output(),
        format!("{id} {id} train 2 3 n1\n1 1 0 0 {work} n1\n2048 6 2 main 0,1\nnone none {id} 1 n1 0,1\n")
    );
    assert_eq!(job.out_path(), lab.work(format!("logs/train-{id}.out")));
}
