//! Budgets as they are shown: all that somebody may see, and those of his that he is told of when he looks at his jobs.

use crate::{
    board::Board,
    door::{Door, send},
    listing::{no_time, send_chunks},
    viewer::Viewer,
};
use gq_cluster::{Budget, Purse, Spending, Whose};
use gq_ipc::{Conn, IpcError};
use gq_model::{Timestamp, Uid};
use gq_proto::{BudgetView, Reply};

impl Door {
    /// How the budgets stand that somebody may see.
    pub(crate) fn budgets(&self, conn: &Conn, uid: Uid) -> Result<(), IpcError> {
        let Some(snapshot) = self.snapshots.take() else { return send(conn, &no_time()) };
        let (policy, viewer) = (&snapshot.policy, Viewer::new(&snapshot.policy, uid));
        let mut all = snapshot.cluster.spendings(policy, snapshot.now);
        // Who has used nothing of what everybody has sees his own all the same.
        for budget in policy.budgets.iter().filter(|budget| budget.whose == Whose::EveryUser) {
            let own = Purse { budget: budget.name.clone(), uid: Some(uid) };
            if !all.iter().any(|spending| spending.purse == own) {
                all.push(snapshot.cluster.spending(policy, budget, own, snapshot.now));
            }
        }
        let views = all.into_iter().filter_map(|spending| {
            let budget = policy.budget(&spending.purse.budget)?;
            let seen = match (&budget.whose, spending.purse.uid) {
                (Whose::Account(account), _) => viewer.sees_use(Some(account), None),
                (Whose::User(owner), _) => viewer.sees_use(None, Some(*owner)),
                (Whose::EveryUser, owner) => viewer.sees_use(None, owner),
            };
            seen.then(|| self.budget_view(budget, spending))
        });
        send_chunks(conn, &views.collect::<Vec<_>>(), |budgets, more| Reply::Budgets { budgets, more })
    }

    /// The budgets that somebody's jobs are paid of and that are to be told, as of now.
    pub(crate) fn told_budgets(&self, board: &Board, viewer: &Viewer<'_>, now: Timestamp) -> Vec<BudgetView> {
        let told = board.outlook.budgets.iter().filter_map(|spending| {
            let budget = board.policy.budget(&spending.purse.budget)?;
            let is_his = match &budget.whose {
                Whose::Account(account) => viewer.pays_for(account),
                Whose::User(uid) => viewer.is(*uid),
                Whose::EveryUser => spending.purse.uid.is_some_and(|uid| viewer.is(uid)),
            };
            let lives = is_his && now < spending.span.until;
            lives.then(|| self.budget_view(budget, spending.clone().as_of(now)))
        });
        told.collect()
    }

    fn budget_view(&self, budget: &Budget, spending: Spending) -> BudgetView {
        let (account, uid) = match &budget.whose {
            Whose::Account(account) => (Some(account.clone()), None),
            Whose::User(uid) => (None, Some(*uid)),
            Whose::EveryUser => (None, spending.purse.uid),
        };
        BudgetView {
            name: spending.purse.budget,
            account,
            user: uid.map(|uid| self.intake.name_of(uid)),
            period: budget.period.name().to_owned(),
            from: spending.span.from,
            until: spending.span.until,
            most: spending.most,
            used: spending.used,
            cards: spending.cards,
            when_used_up: spending.then.name().to_owned(),
        }
    }
}
