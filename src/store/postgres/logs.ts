/** Appends log text to attempts: $1 jobs, $2 attempts, $3 texts. */
export const logStatement = `
  insert into $s.log_chunk (job, attempt, n, body)
  select m.job, m.attempt,
    coalesce((select max(l.n) from $s.log_chunk l where l.job = m.job and l.attempt = m.attempt), 0) + 1, m.body
  from unnest($1::bigint[], $2::int[], $3::text[]) as m (job, attempt, body)`;
