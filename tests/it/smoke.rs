//! The lab itself: that a story can be told in it.

use crate::lab::Lab;
use gq_model::End;

#[test]
fn a_job_runs_from_submission_to_its_end() {
    let lab = Lab::with_cards(2);
    let job = lab.submit("--gpus=1", "echo on $CUDA_VISIBLE_DEVICES");
    assert_eq!(job.output(), "on 0\n");
    let other = lab.submit("", "exit 3");
    assert_eq!(other.ended(), End::Failed);
}
