(** What it costs that the noise is drawn from a table, not from its exact law.

    Total variation adds up over coordinates, and over releases, however these are chosen. With H for
    all of it together, an interaction that would be (epsilon, delta)-private with the exact law is
    (epsilon, delta + (1 + e^epsilon) H)-private with what is drawn. [table.py] bounds the total
    variation of one draw. *)

From Coq Require Import Reals List Lra Lia ZArith Psatz.
From Weir Require Import Python Code Sums DiscreteGaussian Filter Release.
Import ListNotations.
Open Scope R_scope.

(** How much more likely than under another law anything can be. *)
Definition apart {I} (p p' : I -> R) (e : R) : Prop :=
  forall l, NoDup l -> finite_sum (fun i => Rmax 0 (p i - p' i)) l <= e.

Definition at_most_one {I} (p : I -> R) : Prop := nonneg p /\ forall l, NoDup l -> finite_sum p l <= 1.

Lemma apart_nonneg {I} (p p' : I -> R) e : apart p p' e -> 0 <= e.
Proof. intros H. apply (H [] (NoDup_nil _)). Qed.

Lemma product_gap a b a' b' : 0 <= b -> 0 <= a' ->
  Rmax 0 (a * b - a' * b') <= Rmax 0 (a - a') * b + a' * Rmax 0 (b - b').
Proof.
  intros Hb Ha'. assert (H1 := Rmax_l 0 (a - a')). assert (H2 := Rmax_r 0 (a - a')).
  assert (H3 := Rmax_l 0 (b - b')). assert (H4 := Rmax_r 0 (b - b')).
  apply Rmax_lub.
  - apply Rplus_le_le_0_compat; now apply Rmult_le_pos.
  - replace (a * b - a' * b') with ((a - a') * b + a' * (b - b')) by ring.
    apply Rplus_le_compat; [ now apply Rmult_le_compat_r | now apply Rmult_le_compat_l ].
Qed.

(** ** Coordinates *)

Lemma apart_pairs {I J} (eqI : forall x y : I, {x = y} + {x <> y}) (eqJ : forall x y : J, {x = y} + {x <> y})
  (p p' : I -> R) (q q' : J -> R) e f : at_most_one p' -> at_most_one q -> apart p p' e -> apart q q' f ->
  apart (fun x => p (fst x) * q (snd x)) (fun x => p' (fst x) * q' (snd x)) (e + f).
Proof.
  intros [Hp0 Hp1] [Hq0 Hq1] He Hf l Hl.
  set (a := nodup eqI (map fst l)). set (b := nodup eqJ (map snd l)).
  assert (Ha : NoDup a) by apply NoDup_nodup. assert (Hb : NoDup b) by apply NoDup_nodup.
  set (gapI := fun i => Rmax 0 (p i - p' i)). set (gapJ := fun j => Rmax 0 (q j - q' j)).
  assert (HgI : nonneg gapI) by (intros i; apply Rmax_l). assert (HgJ : nonneg gapJ) by (intros j; apply Rmax_l).
  apply Rle_trans with (finite_sum (fun x => gapI (fst x) * q (snd x) + p' (fst x) * gapJ (snd x)) (list_prod a b)).
  - eapply Rle_trans; [ apply finite_sum_le | apply finite_sum_incl; [ | exact Hl | ] ].
    + intros x _. now apply product_gap.
    + intros x. apply Rplus_le_le_0_compat; apply Rmult_le_pos; auto.
    + intros (i, j) H. apply in_prod_iff. subst a b. rewrite !nodup_In. split.
      * now apply (in_map fst) in H.
      * now apply (in_map snd) in H.
  - rewrite finite_sum_plus, !finite_sum_pairs. apply Rplus_le_compat.
    + assert (H := He a Ha). fold gapI in H. assert (Hq := Hq1 b Hb).
      assert (H0 := finite_sum_nonneg gapI a HgI). assert (Hq2 := finite_sum_nonneg q b Hq0).
      eapply Rle_trans; [ apply Rmult_le_compat_l with (r2 := 1); [ exact H0 | exact Hq ] | ]. lra.
    + assert (H := Hf b Hb). fold gapJ in H. assert (Hp := Hp1 a Ha).
      assert (H0 := finite_sum_nonneg gapJ b HgJ).
      eapply Rle_trans; [ apply Rmult_le_compat_r with (r2 := 1); [ exact H0 | exact Hp ] | ]. lra.
Qed.

Lemma at_most_one_pairs {I J} (eqI : forall x y : I, {x = y} + {x <> y}) (eqJ : forall x y : J, {x = y} + {x <> y})
  (p : I -> R) (q : J -> R) : at_most_one p -> at_most_one q -> at_most_one (fun x => p (fst x) * q (snd x)).
Proof.
  intros [Hp0 Hp1] [Hq0 Hq1]. split; [ intros x; now apply Rmult_le_pos | ]. intros l Hl.
  set (a := nodup eqI (map fst l)). set (b := nodup eqJ (map snd l)).
  apply Rle_trans with (finite_sum (fun x => p (fst x) * q (snd x)) (list_prod a b)).
  - apply finite_sum_incl; [ intros x; now apply Rmult_le_pos | exact Hl | ].
    intros (i, j) H. apply in_prod_iff. subst a b. rewrite !nodup_In. split.
    + now apply (in_map fst) in H.
    + now apply (in_map snd) in H.
  - rewrite finite_sum_pairs. assert (Ha := Hp1 a (NoDup_nodup _ _)). assert (Hb := Hq1 b (NoDup_nodup _ _)).
    assert (H0 := finite_sum_nonneg q b Hq0). rewrite <- (Rmult_1_l 1).
    apply Rmult_le_compat; auto. now apply finite_sum_nonneg.
Qed.

(** What is drawn around a centre: the same law [drawn] of noise for every coordinate. *)
Fixpoint drawn_law (drawn : Z -> R) (d : nat) : point d -> point d -> R :=
  match d with
  | O => fun _ _ => 1
  | S d => fun u x => drawn (fst x - fst u)%Z * drawn_law drawn d (snd u) (snd x)
  end.

Lemma shifted_list (u : Z) l : NoDup l -> NoDup (map (fun x => x - u)%Z l).
Proof. intros H. apply FinFun.Injective_map_NoDup; [ | exact H ]. intros x y Hxy. lia. Qed.

Lemma at_most_one_unit : at_most_one (fun _ : unit => 1).
Proof. split; [ intros []; lra | ]. intros l Hl. apply (sums_upper _ _ _ sums_of_unit Hl). Qed.

Lemma drawn_at_most_one drawn d u : at_most_one drawn -> at_most_one (drawn_law drawn d u).
Proof.
  intros [H0 H1]. induction d as [ | d IH ]; cbn [drawn_law]; [ apply at_most_one_unit | ].
  apply (at_most_one_pairs Z.eq_dec (point_eq d) (fun x => drawn (x - fst u)%Z)); [ | apply IH ].
  split; [ intros x; apply H0 | ]. intros l Hl.
  rewrite <- (finite_sum_map drawn (fun x => x - fst u)%Z). apply H1. now apply shifted_list.
Qed.

Lemma masses_at_most_one lambda t0 d u : 0 < lambda -> sums_to (bell lambda 0) t0 -> at_most_one (masses lambda t0 d u).
Proof.
  intros Hl Ht0. split.
  - intros x. apply Rlt_le. apply masses_pos, (theta_pos _ _ _ Ht0).
  - intros l Hnd. apply (sums_upper _ _ _ (masses_sum_to_one lambda t0 d u Hl Ht0) Hnd).
Qed.

(** One draw at most eta from its law: d of them at most d eta. *)
Theorem coordinates_add_up drawn lambda t0 d u eta : 0 < lambda -> sums_to (bell lambda 0) t0 ->
  at_most_one drawn -> apart drawn (mass lambda t0 0) eta -> apart (mass lambda t0 0) drawn eta ->
  apart (drawn_law drawn d u) (masses lambda t0 d u) (INR d * eta) /\
  apart (masses lambda t0 d u) (drawn_law drawn d u) (INR d * eta).
Proof.
  intros Hl Ht0 Hdrawn Hone Hother.
  assert (Hshift : forall v x, mass lambda t0 v x = mass lambda t0 0 (x - v)).
  { intros v x. unfold mass, bell. rewrite minus_IZR. do 3 f_equal. ring. }
  assert (Hone' : forall v, apart (fun x => drawn (x - v)%Z) (mass lambda t0 v) eta).
  { intros v l Hnd. assert (H := Hone _ (shifted_list v l Hnd)). rewrite finite_sum_map in H.
    rewrite (finite_sum_ext _ (fun x => Rmax 0 (drawn (x - v)%Z - mass lambda t0 0 (x - v)))); [ exact H | ].
    intros x. now rewrite Hshift. }
  assert (Hother' : forall v, apart (mass lambda t0 v) (fun x => drawn (x - v)%Z) eta).
  { intros v l Hnd. assert (H := Hother _ (shifted_list v l Hnd)). rewrite finite_sum_map in H.
    rewrite (finite_sum_ext _ (fun x => Rmax 0 (mass lambda t0 0 (x - v) - drawn (x - v)%Z))); [ exact H | ].
    intros x. now rewrite Hshift. }
  assert (Hmass : forall v, at_most_one (mass lambda t0 v)).
  { intros v. split; [ intros x; apply Rlt_le, mass_pos, (theta_pos _ _ _ Ht0) | ]. intros l Hnd.
    assert (H := masses_at_most_one lambda t0 1 (v, tt) Hl Ht0). destruct H as [_ H].
    specialize (H (map (fun x => (x, tt)) l)). rewrite finite_sum_map in H. cbn in H.
    rewrite (finite_sum_ext _ (fun x => mass lambda t0 v x * 1)) by (intros; ring). apply H.
    apply FinFun.Injective_map_NoDup; [ | exact Hnd ]. intros x y Hxy. congruence. }
  induction d as [ | d IH ].
  - cbn. split; intros l Hnd; rewrite (finite_sum_ext _ (fun _ => 0)), finite_sum_zero; try lra;
      intros x; rewrite Rminus_diag_eq by reflexivity; apply Rmax_left; lra.
  - specialize (IH (snd u)). destruct IH as [IH1 IH2].
    rewrite S_INR. replace ((INR d + 1) * eta) with (eta + INR d * eta) by ring. cbn [drawn_law masses]. split.
    + apply (apart_pairs Z.eq_dec (point_eq d) (fun x => drawn (x - fst u)%Z) (mass lambda t0 (fst u))); auto.
      now apply drawn_at_most_one.
    + apply (apart_pairs Z.eq_dec (point_eq d) (mass lambda t0 (fst u)) (fun x => drawn (x - fst u)%Z)); auto.
      * destruct Hdrawn as [H0 H1]. split; [ intros x; apply H0 | ]. intros l Hnd.
        rewrite <- (finite_sum_map drawn (fun x => x - fst u)%Z). apply H1. now apply shifted_list.
      * now apply masses_at_most_one.
Qed.

(** ** Releases *)

(** One side of two interactions that ask alike: what is drawn is at most H from the other's in all. *)
Fixpoint closer {O} (here : bool) (H : R) (t t' : interaction O) : Prop :=
  match t, t' with
  | Over, Over => 0 <= H
  | Ask _ p q next, Ask _ p' q' next' =>
      exists e, e <= H /\ at_most_one (if here then p else q) /\ at_most_one (if here then p' else q') /\
        apart (if here then p else q) (if here then p' else q') e /\
        forall o, closer here (H - e) (next o) (next' o)
  | _, _ => False
  end.

Lemma side {O} (here : bool) (p q : O -> R) o :
  (if here then p o else q o) = (if here then p else q) o.
Proof. now destruct here. Qed.

Lemma closer_at_most_one {O} (eqO : forall x y : O, {x = y} + {x <> y}) here (t : interaction O) :
  forall H t', closer here H t t' -> at_most_one (chance here t) .
Proof.
  induction t as [ | c p q next IH ]; intros H t' Hc.
  - split; [ intros [ | o h ]; cbn; lra | ]. intros l Hl.
    eapply Rle_trans; [ apply (one_place _ [] l); [ | | exact Hl ] | cbn; lra ].
    + intros [ | o h ]; cbn; lra.
    + intros [ | o h ]; [ now left | now right ].
  - destruct t' as [ | c' p' q' next' ]; [ destruct Hc | ]. destruct Hc as (e & _ & [Hp0 Hp1] & _ & _ & Hnext).
    assert (H0 : nonneg (chance here (Ask c p q next))).
    { intros [ | o h ]; cbn; [ lra | ]. rewrite side.
      apply Rmult_le_pos; [ apply Hp0 | apply (IH o (H - e) (next' o) (Hnext o)) ]. }
    split; [ exact H0 | ]. intros l Hl.
    eapply Rle_trans; [ apply (by_first_outcome eqO _ l H0); [ reflexivity | exact Hl ] | ].
    apply Rle_trans with (finite_sum (if here then p else q) (nodup eqO (heads l))); [ | apply Hp1, NoDup_nodup ].
    apply finite_sum_le. intros o _. cbn [chance]. rewrite finite_sum_scale, side.
    rewrite <- (Rmult_1_r ((if here then p else q) o)) at 2.
    apply Rmult_le_compat_l; [ apply Hp0 | ]. apply (IH o (H - e) (next' o) (Hnext o)). now apply NoDup_tails.
Qed.

Theorem releases_add_up {O} (eqO : forall x y : O, {x = y} + {x <> y}) here (t : interaction O) :
  forall H t', closer here H t t' -> apart (chance here t) (chance here t') H.
Proof.
  induction t as [ | c p q next IH ]; intros H t' Hc l Hl; destruct t' as [ | c' p' q' next' ]; try contradiction.
  - cbn in Hc. rewrite (finite_sum_ext _ (fun _ => 0)), finite_sum_zero; [ exact Hc | ].
    intros h. rewrite Rminus_diag_eq by reflexivity. apply Rmax_left. lra.
  - destruct Hc as (e & Heh & Hp & Hp' & Happ & Hnext).
    set (P := if here then p else q) in *. set (P' := if here then p' else q') in *.
    assert (Hpo : forall o, (if here then p o else q o) = P o) by (intros o; subst P; destruct here; reflexivity).
    assert (Hpo' : forall o, (if here then p' o else q' o) = P' o) by (intros o; subst P'; destruct here; reflexivity).
    set (f := fun h => Rmax 0 (chance here (Ask c p q next) h - chance here (Ask c' p' q' next') h)).
    assert (Hf0 : nonneg f) by (intros h; apply Rmax_l).
    eapply Rle_trans; [ apply (by_first_outcome eqO f l Hf0); [ | exact Hl ] | ].
    { unfold f. cbn. rewrite Rminus_diag_eq by reflexivity. apply Rmax_left. lra. }
    apply Rle_trans with (finite_sum (fun o => Rmax 0 (P o - P' o) + P' o * (H - e)) (nodup eqO (heads l))).
    + apply finite_sum_le. intros o _.
      set (k := tails eqO o l). assert (Hk : NoDup k) by now apply NoDup_tails.
      destruct (closer_at_most_one eqO here (next o) (H - e) (next' o) (Hnext o)) as [Hc0 Hc1].
      apply Rle_trans with (finite_sum (fun h => Rmax 0 (P o - P' o) * chance here (next o) h
        + P' o * Rmax 0 (chance here (next o) h - chance here (next' o) h)) k).
      * apply finite_sum_le. intros h _. unfold f. cbn [chance]. rewrite Hpo, Hpo'.
        apply product_gap; [ apply Hc0 | apply Hp' ].
      * rewrite finite_sum_plus, !finite_sum_scale. apply Rplus_le_compat.
        -- rewrite <- (Rmult_1_r (Rmax 0 (P o - P' o))) at 2. apply Rmult_le_compat_l; [ apply Rmax_l | now apply Hc1 ].
        -- apply Rmult_le_compat_l; [ apply Hp' | ]. now apply (IH o (H - e) (next' o) (Hnext o)).
    + rewrite finite_sum_plus.
      rewrite (finite_sum_ext (fun o => P' o * (H - e)) (fun o => (H - e) * P' o)) by (intros; ring).
      rewrite finite_sum_scale.
      assert (Hone := Happ _ (NoDup_nodup eqO (heads l))).
      assert (Htwo := proj2 Hp' _ (NoDup_nodup eqO (heads l))).
      assert (Hzero := finite_sum_nonneg P' (nodup eqO (heads l)) (proj1 Hp')).
      nra.
Qed.

Lemma apart_sums {I} (p p' : I -> R) H l : apart p p' H -> NoDup l -> finite_sum p l <= finite_sum p' l + H.
Proof.
  intros Hap Hl. specialize (Hap l Hl).
  assert (Hle : finite_sum p l <= finite_sum p' l + finite_sum (fun i => Rmax 0 (p i - p' i)) l); [ | lra ].
  clear. induction l as [ | x l IH ]; cbn; [ lra | ]. assert (Hm := Rmax_r 0 (p x - p' x)). lra.
Qed.

(** An interaction [t'] with what is drawn, beside [t], where the exact laws are. *)
Theorem drawn_instead {O} (eqO : forall x y : O, {x = y} + {x <> y}) rule orders delta (t t' : interaction O)
  H (event : list O -> bool) here there :
  Forall2 offset_above orders (offsets rule) -> finite_sum snd orders <= delta -> 0 <= epsilon_of rule ->
  charged orders t -> admitted rule (map (fun _ => Some 0%Z) orders) t ->
  closer true H t' t -> closer false H t t' ->
  sums_to (fun h => if event h then chance true t' h else 0) here ->
  sums_to (fun h => if event h then chance false t' h else 0) there ->
  here <= exp (epsilon_of rule) * there + (delta + (1 + exp (epsilon_of rule)) * H).
Proof.
  intros Hoff Hdelta Heps Hcharged Hadm Htrue Hfalse Hhere Hthere.
  apply (sums_lower _ _ _ Hhere). intros l Hl.
  assert (Hfilter : forall s k, finite_sum (fun h => if event h then chance s t' h else 0) k
    = finite_sum (chance s t') (filter event k)).
  { intros s k. induction k as [ | h k IH ]; cbn; [ reflexivity | ]. destruct (event h); cbn; lra. }
  assert (Hup := sums_upper _ _ l Hthere Hl). rewrite Hfilter in *.
  assert (Hk : NoDup (filter event l)) by now apply NoDup_filter.
  set (k := filter event l) in *.
  assert (H1 := apart_sums _ _ H k (releases_add_up eqO true t' H t Htrue) Hk).
  assert (H2 := apart_sums _ _ H k (releases_add_up eqO false t H t' Hfalse) Hk).
  assert (H3 := weighted_orders_are_a_filter eqO rule orders delta t Hoff Hdelta Heps Hcharged Hadm k Hk).
  assert (He := exp_pos (epsilon_of rule)). nra.
Qed.
