// Store lessons, or write known ones anew: their uses and their vectors stay. Zones, kinds of principles and what is
// retired are labels too, because Browser's styles see nothing else.
// Params:  $changed int, $rows list of maps {lesson_uid, kind, first, properties, embedding, vector}
// Index:   lesson_uid
UNWIND $rows AS row
MERGE (l:Lesson {uid: row.lesson_uid})
ON CREATE SET l += row.first
SET l += row.properties,
    l.changed = $changed,
    l.embedding = coalesce(l.embedding, row.embedding),
    l.vector = coalesce(l.vector, row.vector)
FOREACH (_ IN CASE row.kind WHEN 'experience' THEN [1] ELSE [] END | SET l:Experience)
FOREACH (_ IN CASE row.kind WHEN 'principle' THEN [1] ELSE [] END | SET l:Principle)
FOREACH (_ IN CASE row.kind WHEN 'notes' THEN [1] ELSE [] END | SET l:Notes)
FOREACH (_ IN CASE row.properties.zone WHEN 'golden' THEN [1] ELSE [] END | SET l:Golden)
FOREACH (_ IN CASE row.properties.zone WHEN 'preference' THEN [1] ELSE [] END | SET l:Preference)
FOREACH (_ IN CASE row.properties.zone WHEN 'warning' THEN [1] ELSE [] END | SET l:Warning)
FOREACH (_ IN CASE row.properties.kind WHEN 'guiding' THEN [1] ELSE [] END | SET l:Guiding)
FOREACH (_ IN CASE row.properties.kind WHEN 'cautionary' THEN [1] ELSE [] END | SET l:Cautionary)
FOREACH (_ IN CASE WHEN row.properties.live THEN [] ELSE [1] END | SET l:Retired)
FOREACH (_ IN CASE WHEN row.properties.live THEN [1] ELSE [] END | REMOVE l:Retired)
