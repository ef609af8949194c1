//! What fences runs in on this machine: where their control groups are made, which folders are their own. Found out once, at the start; what the
//! machine does not offer is said then, and told to `gqd`.

use crate::{
    link::Parties,
    site::{Site, StartError},
};
use gq_host::{Around, Devices, Ground, Group};
use gq_model::{Bound, RunKey};
use std::os::unix::fs::MetadataExt;

impl Site {
    /// Finds out what there is for runs, and says what is missing; and where earlier lives made control groups. Once nobody else has this
    /// node's folder, by which groups are named: another node of this name on this machine has others.
    ///
    /// # Errors
    /// When the folder is not there.
    pub fn take_ground(&mut self) -> Result<(), StartError> {
        self.take_groups()?;
        let private = &self.config.fence.private;
        match gq_host::can_be_private(private, &self.folder) {
            Ok(()) => self.private.clone_from(private),
            Err(e) => lacks(Bound::Folders, &e.to_string()),
        }
        Ok(())
    }

    fn take_groups(&mut self) -> Result<(), StartError> {
        let Parties { cluster, node, .. } = &self.parties;
        let folder = std::fs::metadata(&self.folder)
            .map_err(|e| StartError::System("the node's folder cannot be looked at", e))?;
        let name = format!("gq-{cluster}-{node}-{:x}", folder.ino());
        match Ground::find(&name) {
            Ok(former) => self.former = former,
            Err(e) => log::warn!("control groups of earlier lives cannot be looked for: {e}"),
        }
        self.former.leave();
        if !self.config.fence.cgroups {
            log::info!("runs get no control groups, as the conf says");
            return Ok(());
        }
        let (ground, missing) = Ground::make(&name);
        for (bound, why) in missing {
            lacks(bound, &why);
        }
        self.ground = ground;
        self.processes = match self.config.fence.processes {
            Some(processes) => processes,
            None => gq_host::processes_of_a_run()
                .map_err(|e| StartError::System("how many processes there can be is not told", e))?,
        };
        Ok(())
    }

    /// What runs are not bounded in here.
    pub fn unbound(&self) -> Vec<Bound> {
        let bounds = self.ground.bounds();
        let is_bound = |bound: &Bound| match bound {
            Bound::Folders => self.private == self.config.fence.private,
            _ => bounds.contains(bound),
        };
        Bound::ALL.into_iter().filter(|bound| !is_bound(bound)).collect()
    }

    /// The control group of a run, wherever it is.
    pub fn group(&self, key: RunKey) -> Group {
        self.ground.group(key).and(self.former.group(key))
    }

    /// Removes the folders of control groups that hold none.
    pub fn leave_ground(&self) {
        self.ground.leave();
        self.former.leave();
    }

    /// What is done around a run that is kept from these devices: its control group, and what the conf says.
    pub fn around_with(&self, devices: Devices) -> Around {
        let ground = match devices.majors.is_empty() {
            true => self.ground.without(Bound::Cards),
            false => self.ground.clone(),
        };
        Around { ground, processes: self.processes, devices, ..self.around() }
    }
}

/// Says what runs can do that a machine does not keep them from.
fn lacks(bound: Bound, why: &str) {
    let what = match bound {
        Bound::Memory => "runs may use more memory than they asked for",
        Bound::Cards => "cards are hidden from runs that do not hold them, and not kept from them",
        Bound::Processes => "nothing bounds how many processes a run has",
        Bound::Cpus => "runs may use more cpus than they asked for",
        Bound::Suspension => "a user can have his suspended job go on",
        Bound::Folders => "runs see the folders that are to be private as everybody else does",
    };
    log::warn!("{what}: {why}");
}
