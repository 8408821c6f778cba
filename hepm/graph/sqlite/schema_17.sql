-- Version 17: triggers keep the counts of edges, from the runs that took them and how these ended.

CREATE TRIGGER passage_added AFTER INSERT ON passage BEGIN
    INSERT INTO edge (namespace, source, target, support, inverse_steps, failures, unlabelled)
    SELECT new.namespace, new.source, new.target, success IS 1,
           iif(success IS 1 AND steps > 0, CAST(round(4294967296.0 / steps) AS INTEGER), 0), success IS 0, success IS NULL
    FROM trajectory WHERE seq = new.trajectory
    ON CONFLICT (namespace, source, target) DO UPDATE SET
        support = support + excluded.support,
        inverse_steps = inverse_steps + excluded.inverse_steps,
        failures = failures + excluded.failures,
        unlabelled = unlabelled + excluded.unlabelled;
END;
CREATE TRIGGER passage_dropped AFTER DELETE ON passage BEGIN
    UPDATE edge SET
        support = support - (run.success IS 1),
        inverse_steps = inverse_steps
            - iif(run.success IS 1 AND run.steps > 0, CAST(round(4294967296.0 / run.steps) AS INTEGER), 0),
        failures = failures - (run.success IS 0),
        unlabelled = unlabelled - (run.success IS NULL)
    FROM (SELECT success, steps FROM trajectory WHERE seq = old.trajectory) AS run
    WHERE namespace = old.namespace AND source = old.source AND target = old.target;
    DELETE FROM edge
    WHERE namespace = old.namespace AND source = old.source AND target = old.target
      AND support = 0 AND failures = 0 AND unlabelled = 0;
END;
