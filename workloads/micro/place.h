/* Which CPU a thread is on. */
#ifndef PLACE_H
#define PLACE_H

/* pin binds the calling thread to a CPU or ends the program. */
void pin(int cpu);

/* PLACES is the usage of where. */
#define PLACES "any|same|smt|cross"

/* placement reports whether where is one of PLACES. */
int placement(const char *where);

/* place chooses a CPU for each of two threads from those allowed: the same
 * one, two threads of one core, two cores, or -1 for the scheduler's choice.
 * It prints the choice; if there are no such CPUs it ends the program. */
void place(const char *where, int cpu[2]);

#endif
