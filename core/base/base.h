/* Every header of this folder that was part of base.h.  New code includes what it uses. */
#ifndef DPTI_BASE_H
#define DPTI_BASE_H

#include "base/clock.h"
#include "base/environment.h"
#include "base/floats.h"
#include "base/left_behind.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/print.h"
#include "base/random.h"
#include "base/size.h"
#include "base/text.h"
#include "base/thread.h"
#include "dpt_error.h"

#endif
