/** So many blocked jobs are looked at together where all are to be looked at. The look after it goes on from there, and
 *  begins again at the end: it is the net under what wakes each of them by name. */
export const BLOCKED_LOOK = 1_000;
